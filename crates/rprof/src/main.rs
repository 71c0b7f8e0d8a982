//! `rprof`: the command line over the library crates.
//!
//! Arguments, messages, remedies that name flags, progress and exit statuses. The libraries do the
//! work.

mod agent;
mod annotate;
mod cli;
mod code_of_page;
mod collapse;
mod demo;
mod diff;
mod doctor;
mod downloads;
mod drawing;
mod event_list;
mod export;
mod flamegraph;
mod foreign;
mod gate;
mod header;
mod html;
mod input;
mod list;
mod manual;
mod messages;
mod named_input;
mod nearest;
mod nothing_found;
mod object_remedies;
mod output;
mod packages;
mod pager;
mod pages;
mod probes;
mod progress;
mod push;
mod record;
mod record_runs;
mod recorded;
mod recorded_on;
mod remedies;
mod report;
mod rights;
mod run_folders;
mod runtimes;
mod script;
mod signals;
mod stat;
mod status;
mod summary;
mod tables;
mod target;
mod terminal;
mod told;
mod top;
mod tui;
mod tui_code;
mod unshown;
mod verbose;
mod versus;
mod waits;
mod watching;
mod with_code;
mod workload;

use std::process::ExitCode;

use cli::{Cli, Command};
use messages::Failure;

fn main() -> ExitCode {
    let cli = Cli::from_arguments();
    signals::survive_file_size_limit();
    let result = match cli.command {
        Command::Record(args) => record_runs::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Annotate(args) => annotate::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Flamegraph(args) => flamegraph::run(&args),
        Command::Html(args) => html::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Gate(args) => gate::run(&args),
        Command::Collapse(args) => collapse::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Push(args) => push::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Script(args) => script::run(&args),
        Command::Header(args) => header::run(&args),
        Command::List(args) => list::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
        Command::DemoWorkload(args) => {
            workload::run(args.seconds);
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
