//! `--runtimes` with a process that only imitates a JVM.

use std::path::Path;

use rustix::process::Signal;

use super::neighbour::{NOBODY, set_mode};
use crate::support::{Here, Run, Running, c, needs};

/// Process with a mapped `libjvm.so`, beside a `jcmd` that leaves a trace when it runs.
struct Fake {
    here: Here,
    process: Running,
}

impl Fake {
    fn new(manner: &str, as_nobody: bool) -> Fake {
        let here = Here::new();
        set_mode(&here.path(""), 0o755);
        for folder in ["lib/server", "bin"] {
            std::fs::create_dir_all(here.path(folder)).expect("a folder");
        }
        let jcmd = here.path("bin/jcmd");
        let trace = here.path("bin/trace");
        std::fs::write(&jcmd, format!("#!/bin/sh\n: >'{}'\n", trace.display())).expect("a file");
        set_mode(&jcmd, 0o755);
        set_mode(&here.path("bin"), 0o777);
        let library = here.copy(Path::new("/bin/true"), "lib/server/libjvm.so");
        set_mode(&library, 0o755);
        let program = here.copy(&c("fake_jvm.c"), "fake_jvm");
        set_mode(&program, 0o755);
        let start = match as_nobody {
            true => here.command("setpriv").words(NOBODY).arg(program),
            false => here.command(program),
        };
        let mut process = start.arg(library).words(manner).start();
        assert_eq!(process.line(), "ready");
        Fake { here, process }
    }

    fn pid(&self) -> i32 {
        self.process.pid().as_raw_nonzero().get()
    }

    /// No program of the process runs, and it continues.
    fn recorded(&self) -> Run {
        let record = self.here.rprof("record --runtimes -d 0.2 -e cpu-clock -p");
        let run = record.arg(self.pid().to_string()).ok();
        assert!(!self.here.path("bin/trace").exists(), "jcmd ran: {run}");
        self.process.signal(Signal::CONT);
        let left = format!("/tmp/.attach_pid{}", self.pid());
        assert!(!Path::new(&left).exists(), "{run}");
        run
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        std::fs::remove_file(format!("/tmp/.java_pid{}", self.pid())).ok();
    }
}

#[test]
fn runtimes_of_a_process_without_a_handler_sends_no_signal() {
    needs!(PerfEvents);
    let fake = Fake::new("deaf", false);
    fake.recorded().says("it accepts no attach requests");
    let status = format!("/proc/{}/status", fake.pid());
    assert!(std::fs::read_to_string(status).is_ok_and(|text| !text.contains("State:\tZ")));
}

#[test]
fn runtimes_with_a_socket_of_another_process_sends_nothing() {
    needs!(PerfEvents);
    Fake::new("proxied", false)
        .recorded()
        .says("another process owns its socket");
}

#[test]
fn runtimes_as_root_of_a_stranger_run_no_program_of_theirs() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    Fake::new("refuses", true)
        .recorded()
        .says("it has no Compiler.perfmap");
}
