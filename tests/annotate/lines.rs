//! Compares lines and inlined calls with llvm-symbolizer.

use std::path::Path;

use super::{annotated, programs};
use crate::support::{Here, needs};

#[test]
fn lines_and_inlined_calls_are_those_of_llvm_symbolizer() {
    needs!(PerfEvents, Tool("llvm-symbolizer"));
    for (what, program) in programs() {
        if what.contains("stripped") {
            continue;
        }
        check(what, &Here::new(), &program);
    }
}

/// Compares the lines of each instruction of a recorded program.
pub(super) fn check(what: &str, here: &Here, program: &Path) {
    let found = annotated(here, program, "");
    let instructions: Vec<_> = found.instructions().collect();
    let addresses: String = (instructions.iter())
        .map(|i| format!("{:#x}\n", i["address"].as_u64().expect("an address")))
        .collect();
    let script = format!("llvm-symbolizer --inlines --obj={}", program.display());
    let run = here.sh(&script).stdin(addresses.as_bytes()).ok();
    let out = run.out();
    let blocks: Vec<&str> = out
        .split("\n\n")
        .filter(|block| !block.trim().is_empty())
        .collect();
    assert_eq!(blocks.len(), instructions.len(), "{what}");
    let mut different = Vec::new();
    for (instruction, block) in instructions.iter().zip(blocks) {
        // Innermost first: a name, and below it `file:line:column`.
        let lines = block.trim().lines();
        let theirs: Vec<(String, u64)> = lines.skip(1).step_by(2).map(place).collect();
        let places = instruction["places"].as_array().expect("places");
        let ours: Vec<(String, u64)> = (places.iter().rev())
            .map(|place| {
                let file = place["file"].as_str().unwrap_or("??");
                let line = place["line"].as_u64().unwrap_or(0);
                (base_name(file), line)
            })
            .collect();
        if ours != theirs {
            different.push(format!(
                "{:x}: {ours:?} {theirs:?}",
                instruction["address"].as_u64().unwrap_or(0)
            ));
        }
    }
    // For line 0, some tools still print the file.
    let real = different
        .iter()
        .filter(|text| !text.contains(", 0)"))
        .count();
    assert!(
        real * 100 <= instructions.len(),
        "{what}: {real} of {}: {:#?}",
        instructions.len(),
        &different[..different.len().min(20)]
    );
}

fn place(text: &str) -> (String, u64) {
    let mut fields = text.rsplitn(3, ':');
    let (_, line) = (fields.next(), fields.next());
    let line = line.and_then(|line| line.parse().ok()).unwrap_or(0);
    (base_name(fields.next().unwrap_or("??")), line)
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
