//! `rprof`: the command line over the library crates.
//!
//! Arguments, messages, remedies that name flags, progress and exit statuses. The libraries do the
//! work.

mod cli;
mod commands;
mod input;
mod recording;
mod terminal;
mod wording;

use std::process::ExitCode;

use cli::{Cli, Command};
use wording::messages::Failure;

/// musl's allocator has one lock for all threads, which reading commands wait for.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::from_arguments();
    recording::signals::survive_file_size_limit();
    let result = match cli.command {
        Command::Record(args) => commands::record::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Annotate(args) => commands::annotate::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Stat(args) => commands::stat::run(&args),
        Command::Flamegraph(args) => commands::flamegraph::run(&args),
        Command::Html(args) => commands::html::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Gate(args) => commands::gate::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Collapse(args) => commands::export::collapse(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Push(args) => commands::push::run(&args),
        Command::Script(args) => commands::script::run(&args),
        Command::Header(args) => commands::header::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Completions(args) => commands::pages::completions(&args),
        Command::Man(args) => commands::pages::man(&args),
        Command::DemoWorkload(args) => {
            commands::workload::run(args.seconds);
            Ok(0)
        }
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => match failure.report() {
            Some(status) => ExitCode::from(status),
            None => ExitCode::SUCCESS,
        },
    }
}

type Outcome = Result<u8, Failure>;
