//! Writes the files of synthetic hosts: `generate FOLDER HOSTS [MINUTES [SEED]]`.

mod hosts;

use std::path::PathBuf;

use anyhow::Context;
use hosts::{Plan, SLOWER_FUNCTION, SLOWER_SERVICE, VERSIONS};

#[expect(clippy::print_stdout, reason = "it is a program")]
fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "generate FOLDER HOSTS [MINUTES [SEED]]";
    let folder: PathBuf = arguments.next().context(usage)?.into();
    let mut plan = Plan {
        hosts: arguments.next().context(usage)?.parse().context(usage)?,
        ..Plan::default()
    };
    if let Some(minutes) = arguments.next() {
        plan.minutes = minutes.parse().context(usage)?;
    }
    if let Some(seed) = arguments.next() {
        plan.seed = seed.parse().context(usage)?;
    }
    std::fs::create_dir_all(&folder)?;
    let files = hosts::write(&folder, &plan)?;
    println!(
        "{files} files of {} hosts, {} minutes, seed {}; {SLOWER_FUNCTION} of {SLOWER_SERVICE} takes {} times as much in {} as in {}",
        plan.hosts, plan.minutes, plan.seed, plan.slowdown, VERSIONS[1], VERSIONS[0],
    );
    Ok(())
}
