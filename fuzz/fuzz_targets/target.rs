//! Runs the file of `targets` with the name of this binary under libFuzzer. All binaries are built from this
//! file.
#![no_main]

#[path = "../targets/analyse.rs"]
mod analyse;
#[path = "../../crates/symbols/tests/it/chains.rs"]
mod chains;
#[path = "../targets/debug_info.rs"]
mod debug_info;
#[path = "../targets/debug_info_oracle.rs"]
mod debug_info_oracle;
#[path = "../targets/demangle.rs"]
mod demangle;
#[path = "../targets/elf_symbols.rs"]
mod elf_symbols;
#[path = "../targets/feature_sections.rs"]
mod feature_sections;
#[path = "../targets/file_reader.rs"]
mod file_reader;
#[path = "../targets/import.rs"]
mod import;
#[path = "../targets/interpreters.rs"]
mod interpreters;
#[path = "../targets/jitdump.rs"]
mod jitdump;
#[path = "../../crates/symbols/tests/it/judge.rs"]
mod judge;
#[path = "../targets/kallsyms.rs"]
mod kallsyms;
#[path = "../targets/perf_event.rs"]
mod perf_event;
#[path = "../targets/perf_map.rs"]
mod perf_map;
#[path = "../targets/pipe_reader.rs"]
mod pipe_reader;
#[path = "../targets/process_map.rs"]
mod process_map;
#[path = "../targets/readers.rs"]
mod readers;
#[path = "../targets/record_decode.rs"]
mod record_decode;
#[path = "../targets/tracepoint.rs"]
mod tracepoint;
#[path = "../targets/unwind.rs"]
mod unwind;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    match env!("CARGO_BIN_NAME") {
        "analyse" => analyse::run(data),
        "debug_info" => debug_info::run(data),
        "debug_info_oracle" => drop(debug_info_oracle::compare(data)),
        "demangle" => demangle::run(data),
        "elf_symbols" => elf_symbols::run(data),
        "feature_sections" => feature_sections::run(data),
        "file_reader" => file_reader::run(data),
        "import" => import::run(data),
        "interpreters" => interpreters::run(data),
        "jitdump" => jitdump::run(data),
        "kallsyms" => kallsyms::run(data),
        "perf_event" => perf_event::run(data),
        "perf_map" => perf_map::run(data),
        "pipe_reader" => pipe_reader::run(data),
        "process_map" => process_map::run(data),
        "record_decode" => record_decode::run(data),
        "tracepoint" => tracepoint::run(data),
        "unwind" => unwind::run(data),
        other => panic!("there is no target {other}"),
    }
});
