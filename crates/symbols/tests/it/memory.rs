//! Debug information beyond the memory limit is skipped, and the refusal is counted.

use crate::tools::{Scratch, have, run};
use rprof_image::MemoryBudget;
use rprof_symbols::{ImageKey, MemoryLimits, Symbolizer};
use std::path::Path;
use std::process::Command;

const SOURCE: &str =
    "static inline __attribute__((always_inline)) int inner(int x) { volatile int y = x * 3; return y; }
__attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
int main(int n, char **a) { (void)a; return outer(n); }
";

/// Returns the deepest frame names in `outer`'s first bytes and the number of refusals, with this
/// memory limit.
fn names(image: &Path, offset: u64, memory: u64) -> (Vec<String>, u64) {
    let memory = MemoryLimits {
        ours: MemoryBudget::new(memory),
        strangers: MemoryBudget::new(memory),
    };
    let symbolizer = Symbolizer::builder().memory(memory).build();
    let offsets: Vec<u64> = (offset..offset + 8).collect();
    let found = symbolizer.resolve_image(&ImageKey::file(image), &offsets);
    // The function may be shorter, followed by padding.
    let names = (found.iter().flatten())
        .map(|frames| frames.names().map(str::to_owned).collect::<Vec<String>>());
    let most = names.max_by_key(Vec::len);
    (most.unwrap(), symbolizer.memory().refused())
}

#[test]
fn what_does_not_go_into_memory_is_left_out() {
    if !have(&["gcc", "objcopy", "nm"]) {
        return;
    }
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name);
    std::fs::write(path("a.c"), SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-static", "-no-pie", "-o"]);
    run(gcc.arg(path("a")).arg(path("a.c")), "");
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--compress-debug-sections=zlib");
    run(objcopy.arg(path("a")).arg(path("b")), "");
    let symbols = run(Command::new("nm").arg(path("b")), "");
    let line = symbols
        .lines()
        .find(|line| line.ends_with(" outer"))
        .unwrap();
    let svma = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let bytes = std::fs::read(path("b")).unwrap();
    let segments = rprof_image::Segments::parse(&bytes[..]).unwrap();
    let (offset, _) = segments.offset_of_svma(svma).unwrap();

    let (all, refused) = names(&path("b"), offset, 1 << 30);
    assert_eq!((all.len(), refused), (2, 0), "{all:?}");
    assert!(all.iter().any(|name| name == "inner"), "{all:?}");
    let (few, refused) = names(&path("b"), offset, 100);
    assert_eq!(few, ["outer"]);
    assert_eq!(refused, 1);
}
