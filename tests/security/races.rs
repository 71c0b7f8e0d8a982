//! Files that change while they are read.

use super::neighbour::Neighbour;
use crate::support::{Here, needs};

/// Seconds of the neighbour's attempts.
const SHORT: &str = "1.5";

fn swaps(here: &Here, neighbour: &Neighbour, other: &str, seconds: &str) {
    let record = neighbour
        .recorded(here, "-g --keep all")
        .arg(neighbour.path("mallory"));
    let record = record
        .arg("swap")
        .arg(seconds)
        .arg(neighbour.path("theirs"));
    // A hanging recorder is killed, and the test fails.
    let run = record.arg(neighbour.path(other)).ok();
    let swapped: u32 = run.out().trim().parse().expect("a number");
    println!("{swapped} files were replaced by {other}");
    assert!(swapped > 10, "{run}");
    let header = here.rprof("header").ok();
    assert!(
        !header.out().contains("quality        degraded"),
        "{header}"
    );
}

fn with_fifo(seconds: &str) {
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    here.command("mkfifo")
        .arg(neighbour.path("theirs/fifo"))
        .ok();
    swaps(&here, &neighbour, "theirs/fifo", seconds);
}

fn with_device(seconds: &str) {
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    std::os::unix::fs::symlink("/dev/full", neighbour.path("theirs/device")).unwrap();
    swaps(&here, &neighbour, "theirs/device", seconds);
}

fn cut_short(seconds: &str) {
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    let record = neighbour
        .recorded(&here, "-g")
        .arg(neighbour.path("mallory"));
    let run = record
        .arg("cut")
        .arg(seconds)
        .arg(neighbour.path("theirs/copy"))
        .ok();
    let opened: u32 = run.out().trim().parse().expect("a number");
    assert!(opened > 0, "nobody looked at the file: {run}");
}

#[test]
fn a_fifo_in_place_of_a_program_does_not_hang_the_recorder() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    with_fifo(SHORT);
}

#[test]
fn a_device_in_place_of_a_program_is_not_opened() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    with_device(SHORT);
}

/// Reading beyond the end of a mapped file would kill the reader (SIGBUS).
#[test]
fn a_program_that_is_cut_short_while_it_is_read_does_not_end_the_recorder() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    cut_short(SHORT);
}

/// RPROF_RACES sets the seconds for each (default 60). That replaces thousands of files.
#[test]
#[ignore = "some minutes, in which thousands of files are replaced: see .ci/slow"]
fn races_are_lost_thousands_of_times() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let long = std::env::var("RPROF_RACES").unwrap_or_else(|_| "60".to_owned());
    with_fifo(&long);
    with_device(&long);
    cut_short(&long);
}
