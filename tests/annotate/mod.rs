//! `rprof annotate`, compared with objdump, llvm-symbolizer and perf annotate.

mod against_objdump;
mod against_perf;
mod editor;
mod jit;
mod languages;
mod lines;
mod listing;
mod sources;

use std::path::Path;

use serde_json::Value;

use crate::support::{Here, Run, c_with, cxx, rust};

/// Output of `rprof annotate --format json`.
struct Annotated(Vec<Value>);

impl Annotated {
    fn of(run: &Run) -> Annotated {
        let json: Value = serde_json::from_slice(run.bytes()).expect("JSON");
        assert_eq!(json["version"], 1);
        Annotated(json["functions"].as_array().expect("functions").clone())
    }

    fn instructions(&self) -> impl Iterator<Item = &Value> {
        let parts = self
            .0
            .iter()
            .flat_map(|f| f["parts"].as_array().into_iter().flatten());
        parts.flat_map(|part| part["instructions"].as_array().into_iter().flatten())
    }

    fn parts(&self) -> impl Iterator<Item = &Value> {
        self.0
            .iter()
            .flat_map(|f| f["parts"].as_array().into_iter().flatten())
    }
}

fn annotated(here: &Here, program: &Path, options: &str) -> Annotated {
    here.record("-F 999 -g -e cpu-clock:u", program, "0.3");
    annotated_again(here, program, options)
}

fn annotated_again(here: &Here, program: &Path, options: &str) -> Annotated {
    let object = program.to_str().expect("UTF-8");
    let run = here
        .rprof(&format!("annotate --format json {options} --dso"))
        .arg(object)
        .ok();
    let found = Annotated::of(&run);
    assert!(!found.0.is_empty(), "{run}");
    found
}

fn programs() -> Vec<(&'static str, std::path::PathBuf)> {
    let mut programs = vec![
        ("C", c_with("shares.c", &["-g"])),
        (
            "C, split functions",
            c_with("shares.c", &["-g", "-O3", "-freorder-blocks-and-partition"]),
        ),
        ("C, stripped", c_with("shares.c", &["-s"])),
        ("Rust", rust("names.rs", &["-g"])),
    ];
    if rprof_testing::has(rprof_testing::Need::Cxx) {
        programs.push(("C++", cxx("names.cpp")));
    }
    programs
}
