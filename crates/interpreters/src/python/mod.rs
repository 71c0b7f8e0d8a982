//! CPython 3.8 to 3.14, without help by the interpreter.
//!
//! ```text
//!   sample, exact:  registers, C stack                      later:  heap
//!     next instruction ------------------> code object: running function
//!     current frame of each native frame -> frame -> its callers, if looks agree (`looks`)
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `layout` | offsets of each version |
//! | `debug_offsets` | offsets that 3.13 and later state |
//! | `slots` | learned locations of the compiled interpreter's variables |
//! | `current` | the current Python frame of each native frame |
//! | `live` | the frames of a thread during a read |
//! | `snapshot` | memory read for one look, addresses that are probably read next |
//! | `codes` | code objects and names |
//! | `births` | code objects that existed before they were read |
//! | `search` | code objects around an instruction |
//! | `thread` | looks and learned locations of one thread |
//! | `text` | strings |
//! | `looking` | takes a look |
//! | `looks` | rules of belief in callers |
//! | `parts` | the evidence for the frames of one native frame, and calls of native code |
//! | `pace` | urgency of reading samples |
//! | `asleep` | frames of a thread that sleeps |
//! | `watch` | looks between samples |
//! | `newcomers` | looks at threads without samples |
//! | `reader` | [`PythonProcess`]: puts the parts together |

mod asleep;
mod births;
mod codes;
mod current;
mod debug_offsets;
mod layout;
mod live;
mod looking;
mod looks;
mod newcomers;
mod pace;
mod parts;
mod reader;
mod search;
mod slots;
mod snapshot;
mod text;
mod thread;
mod watch;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use current::PythonImage;
use layout::Layout;
use reader::PythonProcess;

use crate::{ImageSymbols, Interpreter, RuntimeImage, RuntimeKind};

const EVAL: &str = "_PyEval_EvalFrameDefault";

/// Constant with the version as `PY_VERSION_HEX`, from 3.11 on.
const VERSION: &str = "Py_Version";

/// Maximum bytes of the interpreter's function that do no more than set up a frame, if the compiler
/// has split off the rest.
const MAX_REST: u64 = 16 << 10;

/// The CPython runtime.
#[derive(Debug)]
pub(crate) struct Python;

impl RuntimeKind for Python {
    fn is_image(&self, name: &[u8]) -> bool {
        name.starts_with(b"python3") || name.starts_with(b"libpython3")
    }

    fn exported_symbol(&self) -> Option<&'static str> {
        Some(EVAL)
    }

    fn version_symbol(&self) -> Option<&'static str> {
        Some(VERSION)
    }

    fn wants_symbol(&self, name: &[u8]) -> bool {
        let names = ["PyCode_Type", "PyFrame_Type", VERSION, "_PyRuntime"];
        name.starts_with(EVAL.as_bytes()) || names.iter().any(|known| known.as_bytes() == name)
    }

    fn split_function(&self) -> Option<&'static str> {
        Some(EVAL)
    }

    fn image(&self, name: &[u8], symbols: &ImageSymbols) -> Option<Arc<dyn RuntimeImage>> {
        let minor = minor_version(name).or_else(|| minor_of(symbols.version()?))?;
        let evals = (symbols.iter())
            .filter(|(name, symbol)| is_eval(name) && symbol.size > 0)
            .map(|(_, symbol)| symbol.svma..symbol.svma.saturating_add(symbol.size));
        let mut evals: Vec<Range<u64>> = evals.collect();
        let is_split = !symbols.parts().is_empty();
        let is_rest = |eval: &&Range<u64>| is_split && eval.end - eval.start <= MAX_REST;
        let set_up = evals.first().filter(is_rest).cloned();
        evals.extend_from_slice(symbols.parts());
        Some(Arc::new(PythonImage {
            layout: Layout::of(minor)?,
            minor,
            eval: symbols.get(EVAL)?.svma,
            evals,
            code_type: symbols.get("PyCode_Type")?.svma,
            frame_type: symbols.get("PyFrame_Type")?.svma,
            version: symbols.get(VERSION).map(|symbol| symbol.svma),
            runtime: symbols.get("_PyRuntime").map(|symbol| symbol.svma),
            set_up,
            learned: Mutex::default(),
        }))
    }
}

/// Returns true for the interpreter's function, and for a part of it that the compiler moved.
fn is_eval(name: &[u8]) -> bool {
    let part = name.strip_prefix(EVAL.as_bytes());
    part.is_some_and(|part| part.is_empty() || part.starts_with(b"."))
}

/// Returns the second number of the version in a file name such as `libpython3.11.so.1.0`.
fn minor_version(name: &[u8]) -> Option<u8> {
    let name = name.strip_prefix(b"lib").unwrap_or(name);
    let version = name.strip_prefix(b"python3.")?;
    let end = version.iter().position(|byte| !byte.is_ascii_digit());
    let digits = version.get(..end.unwrap_or(version.len()))?;
    let is_plain = match version.get(digits.len()..)? {
        b"" => true,
        // Debug and free-threaded builds (`d`, `t`) have other structures.
        rest => rest.starts_with(b".so"),
    };
    (is_plain).then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Returns the second number of a `PY_VERSION_HEX`.
fn minor_of(version: u64) -> Option<u8> {
    let [_, _, minor, major] = u32::try_from(version).ok()?.to_le_bytes();
    (major == 3).then_some(minor)
}

impl RuntimeImage for PythonImage {
    fn process(self: Arc<Self>, bias: u64) -> Box<dyn Interpreter> {
        Box::new(PythonProcess::new(self, bias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_file_names() {
        let of = |name: &str| minor_version(name.as_bytes());
        assert_eq!(of("python3.11"), Some(11));
        assert_eq!(of("libpython3.8.so.1.0"), Some(8));
        assert_eq!(of("libpython3.13.so"), Some(13));
        for other in [
            "python3",
            "python3.13t",
            "python3.11d",
            "libpython3.so",
            "python2.7",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(minor_of(0x030b_02f0), Some(11));
        assert_eq!(minor_of(0x0207_12f0), None);
    }
}
