//! `cargo rprof`: builds a program of a package with debug information, then hands it to `rprof`.
//!
//! | module | holds |
//! |---|---|
//! | `args` | options of Cargo, told apart from those of rprof |
//! | `build` | the run of Cargo, and the program that it makes |
//! | `choice` | which program is meant when none is named |
//! | `profile` | debug information of Cargo's profiles |
//!
//! Recording itself is the work of the `rprof` that is installed beside this program. It is executed in place of it,
//! so that signals and the exit status are rprof's own.

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

use args::{CargoArgs, Line, Mode, command, parts};
use build::Program;

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Cargo names the subcommand before its arguments.
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

/// Executes rprof, and returns only if there is nothing to execute or that fails.
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

/// Makes the command that records the program.
fn recorder(line: &Line, options: &CargoArgs, program: &Program) -> Result<Command, Error> {
    let here = std::env::current_dir().context("cannot tell the working directory")?;
    let mut rprof = Command::new(rprof());
    rprof.arg(&line.command).args(&line.rprof);
    if let Some(output) = output(options, &line.command, &here) {
        rprof.arg("-o").arg(output);
    }
    // `-- --bench`, as cargo flamegraph needs it, is not said twice, which harnesses refuse.
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

/// Returns the file to write, by its absolute name: tests and benches run in the folder of their package.
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

/// Path of the `rprof` beside this program, or its name, to be looked for in PATH.
fn rprof() -> PathBuf {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let beside = own.ok().map(|path| path.with_file_name("rprof"));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| "rprof".into())
}

/// Executes a command in place of this program. Returns only if that fails.
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
    let _ = writeln!(anstream::stderr(), "cargo rprof: {message}");
}
