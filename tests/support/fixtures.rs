//! Programs to record, compiled from `fixtures/` on first use.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use super::call_tree::Language;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// The kernel walks stacks by frame pointers.
const C_FLAGS: &[&str] = &[
    "-O2",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-pthread",
];

pub(crate) fn c(source: &str) -> PathBuf {
    c_with(source, &[])
}

pub(crate) fn c_with(source: &str, flags: &[&str]) -> PathBuf {
    compile(&env_or("CC", "cc"), source, &[C_FLAGS, flags].concat())
}

pub(crate) fn cxx(source: &str) -> PathBuf {
    compile(&cxx_compiler(), source, C_FLAGS)
}

pub(crate) fn cxx_with(source: &str, flags: &[&str]) -> PathBuf {
    compile(&cxx_compiler(), source, &[C_FLAGS, flags].concat())
}

fn cxx_compiler() -> String {
    env_or("CXX", "c++")
}

pub(crate) fn rust(source: &str, flags: &[&str]) -> PathBuf {
    let common = ["--edition=2024", "-O", "-Cforce-frame-pointers=yes"];
    compile(
        &env_or("RUSTC", "rustc"),
        source,
        &[&common, flags].concat(),
    )
}

/// Returns a folder of classes, for the class path.
pub(crate) fn java(source: &str) -> PathBuf {
    compile("javac", source, &[])
}

pub(crate) fn generated(name: &str, text: &str, language: Language, flags: &[&str]) -> PathBuf {
    let (compiler, extension, common): (_, _, &[&str]) = match language {
        Language::C => (env_or("CC", "cc"), "c", &["-w", "-pthread"]),
        Language::Cxx => (cxx_compiler(), "cpp", &["-w", "-pthread"]),
        Language::Rust => (
            env_or("RUSTC", "rustc"),
            "rs",
            &["--edition=2024", "-Awarnings"],
        ),
    };
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    let folder = folder.join(format!("{:016x}", hasher.finish()));
    std::fs::create_dir_all(&folder).expect("cannot make a folder for a generated program");
    let source = folder.join(format!("{name}.{extension}"));
    std::fs::write(&source, text).expect("cannot write a generated program");
    let source = source.to_str().expect("paths here are UTF-8");
    compile(&compiler, source, &[common, flags].concat())
}

fn env_or(name: &str, default: &str) -> String {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => value,
        _ => default.into(),
    }
}

fn compile(compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(SOURCES).join(source);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    rprof_testing::compile(folder, compiler, &source, flags)
}

pub(crate) fn large_source(functions: usize) -> String {
    let mut source = String::from("int data[4096];\n");
    for i in 0..functions {
        source += &format!(
            "int f{i}(int n, int *p) {{\n  int sum = {i};\n  for (int i = 0; i < n; i++)\n    \
             switch (p[i] % 7) {{\n    case 0: sum += p[i] * {i}; break;\n    case 1: sum ^= p[sum & 4095]; break;\n    \
             case 2: p[i] = sum / 3; break;\n    default: sum -= data[(i * {i}) & 4095];\n    }}\n  return sum;\n}}\n"
        );
    }
    source
}
