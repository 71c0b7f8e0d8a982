//! `cargo rprof`: builds and records programs of a package.

use crate::support::{Here, Shell, needs, wait_until};

const APP: &str = r#"[package]
name = "app"
version = "0.1.0"
edition = "2021"
default-run = "app"

[[bench]]
name = "speed"
harness = false

[features]
loud = []
"#;

const MAIN: &str = r#"
#[inline(never)]
fn hot(rounds: u64) -> u64 {
    (0..rounds).fold(1, |sum, n| std::hint::black_box(sum ^ n).rotate_left(7))
}

fn main() {
    println!("{}", hot(200_000_000));
    if cfg!(feature = "loud") {
        println!("it is loud");
    }
    std::process::exit(std::env::args().nth(1).map_or(0, |code| code.parse().unwrap()));
}

#[test]
fn of_a_binary() {
    println!("test of {}, {}", env!("CARGO_PKG_NAME"), hot(50_000_000));
}
"#;

const TEST: &str = r#"
#[test]
fn of_the_whole() {
    // As under `cargo test`, files are found from the folder of the package.
    println!("{}", std::fs::read_to_string("data.txt").unwrap());
    println!("{:?}", std::env::var("CARGO_MANIFEST_DIR").unwrap().ends_with("app"));
}
#[test]
fn of_something_else() {
    panic!("it was not asked for");
}
"#;

const PRINT: &str =
    r#"fn main() { println!("{:?}", std::env::args().skip(1).collect::<Vec<_>>()); }"#;

/// Creates two packages. The result runs `cargo rprof`.
fn workspace(here: &Here) -> impl Fn(&str) -> Shell + '_ {
    let write = |name: &str, text: &str| {
        let path = here.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("cannot make a folder");
        std::fs::write(path, text).expect("cannot write a source");
    };
    write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"app\", \"tool\"]\nresolver = \"2\"\n",
    );
    write("app/Cargo.toml", APP);
    write("app/src/main.rs", MAIN);
    write("app/src/bin/other.rs", PRINT);
    write("app/examples/shown.rs", PRINT);
    write("app/tests/whole.rs", TEST);
    write("app/benches/speed.rs", PRINT);
    write("app/data.txt", "read from a file");
    write(
        "tool/Cargo.toml",
        &APP.replace("app", "tool")
            .replace("[[bench]]\nname = \"speed\"\nharness = false", ""),
    );
    write(
        "tool/src/main.rs",
        "fn main() { let wrong: u32 = \"text\"; }",
    );
    |args| {
        let target = here.path("built");
        let shell = here
            .command(env!("CARGO_BIN_EXE_cargo-rprof"))
            .arg("rprof")
            .words(args);
        // Isolated from the build that runs this test.
        shell.env(
            "CARGO_TARGET_DIR",
            target.to_str().expect("paths here are UTF-8"),
        )
    }
}

#[test]
fn a_binary_is_built_with_lines_and_recorded() {
    needs!(PerfEvents);
    let here = Here::new();
    let cargo = workspace(&here);
    let run = cargo("record --offline -p app --features loud -F 4999 -- 7").run();
    run.exits(7)
        .prints("it is loud")
        .says("CARGO_PROFILE_RELEASE_DEBUG=1");
    let report = here.rprof("report --format csv -s symbol,srcline").ok();
    report.prints("app::hot").prints("main.rs:");
}

#[test]
fn programs_of_all_kinds_are_run_as_cargo_runs_them() {
    needs!(PerfEvents);
    let here = Here::new();
    let cargo = workspace(&here);
    let quick = "--offline --dev -p app";
    cargo(&format!("{quick} --example shown -- -x --bin"))
        .run()
        .exits(0)
        .prints(r#"["-x", "--bin"]"#);
    assert!(
        here.path("flamegraph.svg").exists(),
        "the default is a flame graph"
    );
    cargo(&format!("record {quick} --bin other -o other.data -- 1"))
        .run()
        .exits(0)
        .prints(r#"["1"]"#);
    assert!(here.path("other.data").exists());
    let run = cargo(&format!(
        "record {quick} --test whole -- --nocapture of_the_whole"
    ))
    .run();
    run.exits(0)
        .prints("read from a file")
        .prints("true")
        .prints("1 passed");
    assert!(
        here.path("perf.data").exists(),
        "it belongs into the folder of the user"
    );
    assert!(!here.path("app/perf.data").exists());
    cargo(&format!("record {quick} --bench speed -- 5"))
        .run()
        .exits(0)
        .prints(r#"["--bench", "5"]"#);
    cargo(&format!("record {quick} --bench speed -- --bench 5"))
        .run()
        .exits(0)
        .prints(r#"["--bench", "5"]"#);
    let run = cargo(&format!("record {quick} --unit-test app -- --nocapture")).run();
    run.exits(0).prints("test of app, ");
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let here = Here::new();
    let cargo = workspace(&here);
    let run = cargo("record --offline").run();
    run.exits(1).says("several binaries").says("app, tool");
    cargo("record --offline -p app --bin none")
        .run()
        .exits(1)
        .says("none");
    cargo("record --offline --dev -p tool")
        .run()
        .exits(1)
        .says("mismatched types")
        .says("the build failed");
    cargo("record --offline --bin a --example b")
        .run()
        .exits(2)
        .says("cannot be used with");
    cargo("record --manifest-path none/Cargo.toml")
        .run()
        .exits(1)
        .says("none/Cargo.toml");
    assert!(!here.path("perf.data").exists());
}

#[test]
fn other_commands_are_those_of_rprof() {
    let here = Here::new();
    let cargo = |args| here.command(env!("CARGO_BIN_EXE_cargo-rprof")).words(args);
    cargo("rprof report -i none.data")
        .run()
        .exits(1)
        .says("none.data");
    cargo("rprof --help")
        .ok()
        .prints("--unit-test")
        .prints("cargo rprof [COMMAND]");
    cargo("rprof completions bash").ok().prints("--unit-bench");
    cargo("rprof man").ok().prints(".TH");
}

#[test]
fn a_graph_is_opened_only_when_that_is_asked_for() {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), "main;work 12\n").expect("cannot write folded stacks");
    std::fs::create_dir(here.path("bin")).expect("cannot make a folder");
    let script = "#!/bin/sh\nPATH=/usr/bin:/bin\nmv $1 opened.svg";
    std::fs::write(here.path("bin/xdg-open"), script).expect("cannot write a script");
    here.command("chmod").words("755 bin/xdg-open").ok();
    let path = format!("{}:/usr/bin:/bin", here.path("bin").display());
    here.rprof("flamegraph x.folded").env("PATH", &path).ok();
    assert!(here.path("flamegraph.svg").exists());
    here.rprof("flamegraph --open x.folded")
        .env("PATH", &path)
        .ok();
    wait_until("the graph is opened", || here.path("opened.svg").exists());
    // A missing opener is no failure.
    here.rprof("flamegraph --open x.folded")
        .env("PATH", "/nowhere")
        .ok()
        .says("xdg-open");
}
