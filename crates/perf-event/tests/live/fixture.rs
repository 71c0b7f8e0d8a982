//! A program that waits to be profiled.

use rprof_testing::{Tether, compile};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// `tests/fixtures/writers.c`: it waits for [`go`](Self::go).
pub(crate) struct Writers {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(crate) address: u64,
    _tether: Tether,
}

impl Writers {
    pub(crate) const WRITES: u64 = 3 * 1000 + 234;

    pub(crate) fn start() -> Writers {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/writers.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let program = compile(folder, &compiler, &source, &["-O1", "-pthread"]);
        let tether = Tether::new();
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = tether.tie(&mut command).spawn().unwrap();
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Writers {
            child,
            input,
            output,
            address: line.trim().parse().unwrap(),
            _tether: tether,
        }
    }

    /// Makes it write, and waits until it has.
    pub(crate) fn go(&mut self) {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    pub(crate) fn end(&mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }
}
