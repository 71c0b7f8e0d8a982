//! Node.js, and other programs with V8.
//!
//! All frames of JavaScript functions are on the machine stack, whichever of V8's interpreter and
//! compilers made their code. Each has the same slots below its frame pointer: the context, the
//! JSFunction, and in the interpreter the BytecodeArray.
//!
//! | file | idea |
//! |---|---|
//! | `layout` | offsets and type numbers of a version |
//! | `heap` | objects and strings |
//! | `frames` | which native frames may run a function |
//! | `identity` | which function a frame runs, with the proof |
//! | `code` | Code objects of JIT compilers |
//! | `function`, `script` | name, file, line and column of a function |
//! | `source_map` | file, line and column before a compiler |
//!
//! The optimizing compilers inline calls. An inlined function has no frame, so it counts for the
//! function that contains it.

mod code;
mod frames;
mod function;
mod heap;
mod identity;
mod layout;
mod script;
mod source_map;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::snapshot::{Fault, Result, Snapshot};
use crate::{
    CodeKind, Found, ImageSymbols, Interpreter, Names, NativeFrame, ProcessMemory, RuntimeImage,
    RuntimeKind, Stack, UNNAMED_JAVASCRIPT,
};
use function::{NamedFunction, fingerprint};
use heap::Heap;
use identity::{Identities, Identity, JsFrame, is_fresh};
use layout::{Constants, Layout, MAJOR, MINOR, PREFIX};
use script::Scripts;

/// Maximum number of rounds of reads for one stack. A new function takes about ten.
const MAX_ROUNDS: usize = 40;

const MAX_NAMED: usize = 1 << 16;

/// V8 in `node`, or in the shared library of Debian's Node.js.
#[derive(Clone, Copy, Debug)]
pub(crate) struct V8;

impl RuntimeKind for V8 {
    fn is_image(&self, name: &[u8]) -> bool {
        matches!(name, b"node" | b"nodejs") || name.starts_with(b"libnode.so")
    }

    fn exported_symbol(&self) -> Option<&'static str> {
        Some("v8dbg_off_fp_function")
    }

    fn wants_symbol(&self, name: &[u8]) -> bool {
        name.starts_with(PREFIX.as_bytes()) || name == MAJOR.as_bytes() || name == MINOR.as_bytes()
    }

    fn has_all(&self, symbols: &ImageSymbols) -> bool {
        Constants::find(symbols).is_some()
    }

    fn image(&self, _: &[u8], symbols: &ImageSymbols) -> Option<Arc<dyn RuntimeImage>> {
        let constants = Constants::find(symbols)?;
        Some(Arc::new(V8Image { constants }))
    }
}

#[derive(Debug)]
struct V8Image {
    constants: Constants,
}

impl RuntimeImage for V8Image {
    fn process(self: Arc<Self>, bias: u64) -> Box<dyn Interpreter> {
        Box::new(V8Process {
            image: self,
            bias,
            is_code_named: false,
            layout: None,
            identities: Identities::default(),
            scripts: Scripts::default(),
            named: FxHashMap::default(),
        })
    }
}

#[derive(Debug)]
struct V8Process {
    image: Arc<V8Image>,
    bias: u64,
    /// True if a file names the code of the compilers (`--perf-basic-prof`, `--perf-prof`).
    is_code_named: bool,
    /// The inner `None` is an unsupported version.
    layout: Option<Option<Box<Layout>>>,
    identities: Identities,
    scripts: Scripts,
    /// By SharedFunctionInfo.
    named: FxHashMap<u64, Named>,
}

#[derive(Debug)]
struct Named {
    fingerprint: [u64; 2],
    proven: u64,
    address: Option<u64>,
}

impl Interpreter for V8Process {
    fn is_own(&self, frame: &NativeFrame) -> bool {
        matches!(frame.code, CodeKind::Image(_) | CodeKind::Generated)
    }

    fn read(
        &mut self,
        stack: &Stack<'_>,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
        found: &mut Found,
    ) {
        let layout = self.layout.take().or_else(|| {
            let values = self.image.constants.read(self.bias, memory)?;
            Some(Layout::new(&values).map(Box::new))
        });
        if let Some(Some(layout)) = &layout {
            self.read_with(layout, stack, memory, names, found);
        } else {
            found.is_unread = layout.is_none();
        }
        self.layout = layout;
    }

    fn handle_named_code(&mut self) {
        self.is_code_named = true;
    }

    fn copies_text(&self) -> bool {
        true
    }
}

/// Functions of a frame, innermost first: entries of [`Names`], or `None` without a name.
type Functions = Vec<Option<u64>>;

impl V8Process {
    fn read_with(
        &mut self,
        layout: &Layout,
        stack: &Stack<'_>,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
        found: &mut Found,
    ) {
        let mut frames = frames::candidates(stack, layout);
        frames.retain(|frame| frame.code.is_none() || !self.is_code_named);
        if frames.is_empty() {
            return;
        }
        let mut snapshot = Snapshot::default();
        let mut functions: Vec<Option<Functions>> = vec![None; frames.len()];
        for _ in 0..MAX_ROUNDS {
            let mut heap = Heap {
                layout,
                memory: &mut snapshot,
            };
            let unknown = (frames.iter().zip(&mut functions)).filter(|(_, found)| found.is_none());
            for (frame, found) in unknown {
                *found = match self.functions_of(&mut heap, frame, stack.time, names) {
                    Ok(functions) => Some(functions),
                    Err(Fault::Invalid) => Some(vec![None]),
                    Err(Fault::Unread) => None,
                };
            }
            if !snapshot.fetch(memory) {
                break;
            }
        }
        for (frame, functions) in frames.iter().zip(functions) {
            for function in functions.unwrap_or_else(|| vec![None]) {
                found.push(frame.native, function, UNNAMED_JAVASCRIPT, names);
            }
        }
        found.is_unread |= found.unnamed > 0 && !snapshot.has_read();
    }

    fn functions_of(
        &mut self,
        heap: &mut Heap<'_>,
        frame: &JsFrame,
        time: u64,
        names: &mut dyn Names,
    ) -> Result<Functions> {
        match self.identities.of(heap, frame, time)? {
            Identity::Other => Ok(Vec::new()),
            Identity::Function(shared) => Ok(vec![self.name(heap, shared, time, names)?]),
            Identity::Called(shared, caller) => {
                let own = self.name(heap, shared, time, names)?;
                let caller = match caller {
                    Some(caller) => self.name(heap, caller, time, names)?,
                    None => None,
                };
                Ok(vec![own, caller])
            }
        }
    }

    /// Returns the entry of a function, by its SharedFunctionInfo. `None` at the limit of names.
    fn name(
        &mut self,
        heap: &mut Heap<'_>,
        shared: u64,
        time: u64,
        names: &mut dyn Names,
    ) -> Result<Option<u64>> {
        if let Some(named) = self.named.get_mut(&shared) {
            if is_fresh(named.proven, time) {
                return Ok(named.address);
            }
            if fingerprint(heap, shared)? == named.fingerprint {
                named.proven = time;
                return Ok(named.address);
            }
        }
        let function = NamedFunction::read(heap, shared)?;
        let name = self.scripts.describe(heap, &function)?;
        let named = Named {
            fingerprint: fingerprint(heap, shared)?,
            proven: time,
            address: names.address_of(&name),
        };
        let address = named.address;
        if self.named.len() >= MAX_NAMED {
            self.named.clear();
        }
        self.named.insert(shared, named);
        Ok(address)
    }
}
