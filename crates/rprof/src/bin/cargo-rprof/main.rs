//! `cargo rprof`: builds a program of a package with debug information, then executes `rprof` on
//! it.
//!
//! | module | holds |
//! |---|---|
//! | `args` | arguments, split between Cargo, rprof and the program |
//! | `build` | the build with Cargo, and its program |
//! | `choice` | choice of the program without an option for it |
//! | `profile` | debug information settings of Cargo profiles |
//!
//! The `rprof` beside this program does the recording. It replaces this process (exec), so that
//! signals and the exit status are its own.

mod args;
mod build;
mod choice;
mod profile;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Error};
use clap::{CommandFactory, Parser};
use rprof_perf_event::errno::with_names;

use args::{CargoArgs, Line, Mode, command, parts};
use build::Program;

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Name of the subcommand, from Cargo.
    if words.first().is_some_and(|word| word == "rprof") {
        words.remove(0);
    }
    match run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Executes rprof. Returns after printing completions or a page, or with an error.
fn run(words: Vec<OsString>) -> Result<(), Error> {
    let line = match parts(words) {
        Mode::Run(line) => line,
        Mode::PassOn(words) => return Err(execute(Command::new(rprof()).args(words))),
        Mode::Completions(shell) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "cargo-rprof", &mut script);
            return print(&script);
        }
        Mode::Manual => {
            let mut page = Vec::new();
            clap_mangen::Man::new(CargoArgs::command()).render(&mut page)?;
            return print(&page);
        }
    };
    let options = CargoArgs::parse_from(&line.cargo);
    let program = build::build(&options)?;
    Err(execute(&mut recorder(&line, &options, &program)?))
}

fn recorder(line: &Line, options: &CargoArgs, program: &Program) -> Result<Command, Error> {
    let here = std::env::current_dir().context("cannot get the working directory")?;
    let mut rprof = Command::new(rprof());
    rprof.arg(&line.command).args(&line.rprof);
    if let Some(output) = output(options, &line.command, &here) {
        rprof.arg("-o").arg(output);
    }
    // Once if the user gives `--bench` too, as for cargo flamegraph: test harnesses refuse
    // duplicates.
    let own = program
        .args
        .iter()
        .filter(|word| !line.program.contains(word));
    rprof.arg("--").arg(&program.path).args(own);
    rprof.args(&line.program).envs(program.environment.clone());
    if let Some(folder) = &program.folder {
        rprof.current_dir(folder);
    }
    Ok(rprof)
}

/// Returns the absolute path of the output file, because tests and benches run in the folder of
/// their package.
fn output(options: &CargoArgs, command: &str, here: &Path) -> Option<PathBuf> {
    let default = match command {
        "record" => Some("perf.data"),
        "flamegraph" => Some("flamegraph.svg"),
        "html" => Some("profile.html"),
        _ => None,
    };
    let given = options.output.clone().or_else(|| default.map(Into::into))?;
    match given == Path::new("-") {
        true => Some(given),
        false => Some(here.join(given)),
    }
}

/// Returns the path of the `rprof` beside this program, or its name for a search in PATH.
fn rprof() -> PathBuf {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let beside = own.ok().map(|path| path.with_file_name("rprof"));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| "rprof".into())
}

/// Replaces this process with a command. Returns only on failure.
fn execute(command: &mut Command) -> Error {
    let name = command.get_program().to_string_lossy().into_owned();
    Error::from(command.exec()).context(format!(
        "cannot execute {name}; `cargo install rprof` installs it beside cargo-rprof"
    ))
}

fn print(text: &[u8]) -> Result<(), Error> {
    if rprof_launch::standard_output_was_closed() {
        return Err(Error::msg(
            "cannot write to standard output: it is closed (`>&-`)",
        ));
    }
    match std::io::stdout().lock().write_all(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints a line to standard error, which may be closed.
fn say(message: impl std::fmt::Display) {
    let message = message.to_string();
    let message = with_names(&message);
    let _ = writeln!(anstream::stderr(), "cargo rprof: {message}");
}
