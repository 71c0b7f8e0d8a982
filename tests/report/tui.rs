//! `rprof report --tui` in a real terminal: tmux, driven by keys and read back.

use std::process::Command;

use crate::support::{Here, needs, wait_until};

const RPROF: &str = env!("CARGO_BIN_EXE_rprof");

/// A terminal with a shell in it, gone when this is dropped.
struct Terminal<'h> {
    here: &'h Here,
    server: String,
}

impl Terminal<'_> {
    fn new(here: &Here) -> Terminal<'_> {
        let number = here.path("").to_string_lossy().replace(['/', '.'], "-");
        let terminal = Terminal {
            here,
            server: format!("rprof-test-{}{number}", std::process::id()),
        };
        let shell = "env -u NO_COLOR -u TMUX PS1='ready> ' LC_ALL=C.UTF-8 sh -i";
        terminal.tmux(&["-u", "new-session", "-d", "-x", "100", "-y", "30", shell]);
        terminal.wait("ready>");
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.server, "-f", "/dev/null"]);
        command.args(words).current_dir(self.here.path(""));
        let out = command.output().expect("cannot run tmux");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits for a text on the screen.
    fn wait(&self, text: &str) {
        wait_until(&format!("the screen has {text:?}"), || {
            self.screen().contains(text)
        });
    }

    fn keys(&self, keys: &str) {
        self.tmux(&["send-keys", "-l", keys]);
    }

    fn key(&self, name: &str) {
        self.tmux(&["send-keys", name]);
    }

    /// Runs a command in the shell.
    fn run(&self, command: &str) {
        self.keys(command);
        self.key("Enter");
    }

    /// Writes the settings of the terminal into a file, and returns them once they are there.
    fn settings(&self, name: &str) -> String {
        self.run(&format!("stty -g > {name}.part; mv {name}.part {name}"));
        wait_until("the settings are written", || self.here.path(name).exists());
        std::fs::read_to_string(self.here.path(name)).expect("cannot read settings")
    }

    fn rprof_pid(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        let children = std::fs::read_to_string(children).expect("no children of the shell");
        children.trim().to_owned()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

const STACKS: &str =
    "main;parse;hash 31\nmain;parse;copy 12\nmain;walk;walk 8\nmain;other\u{1b}[31m 3\n";

fn with_stacks() -> Here {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), STACKS).expect("cannot write folded stacks");
    here
}

/// Self, total and samples of the rows on the screen are those of `report --format json`.
#[test]
fn numbers_are_those_of_the_json_report() {
    needs!(File("/usr/bin/tmux"));
    let here = with_stacks();
    let terminal = Terminal::new(&here);
    let check = |filter: &str, script: &[&str], told: &str| {
        terminal.run(&format!("{RPROF} report --tui x.folded"));
        terminal.wait("? help");
        for key in script {
            match key.strip_prefix('<') {
                Some(name) => terminal.key(name),
                None => terminal.keys(key),
            }
        }
        terminal.wait(told);
        let screen = terminal.screen();
        let report = here
            .rprof("report --format json x.folded")
            .words(filter)
            .ok();
        let report = crate::support::Report::parse(&report);
        let event = report.only();
        let whole: u64 = event.rows.iter().map(|row| row.own).sum();
        for row in &event.rows {
            let share = |part: u64| format!("{:.2}%", part as f64 * 100.0 / whole as f64);
            let wanted = [
                share(row.own),
                share(row.total),
                row.self_samples.to_string(),
            ];
            let has = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.len() > 3 && words[..3] == wanted && line.contains(&row.symbol)
            };
            assert!(
                screen.lines().any(has),
                "{wanted:?} {} in\n{screen}",
                row.symbol
            );
        }
        terminal.keys("q");
        wait_until("the shell is back", || {
            terminal.screen().trim_end().ends_with("ready>")
        });
    };
    check("", &[], "54 samples");
    check(
        "--focus parse",
        &["/parse", "<Enter", "*", "f"],
        "43 samples",
    );
}

/// However it ends, the terminal has the settings of before.
#[test]
fn the_terminal_is_left_as_it_was() {
    needs!(File("/usr/bin/tmux"));
    let here = with_stacks();
    let terminal = Terminal::new(&here);
    let before = terminal.settings("before");
    let begin = || {
        terminal.run(&format!("clear; {RPROF} report --tui x.folded"));
        terminal.wait("? help");
    };
    for (name, signal) in [("term", "TERM"), ("int", "INT"), ("hup", "HUP")] {
        begin();
        let pid = terminal.rprof_pid();
        here.sh(&format!("kill -{signal} {pid}")).ok();
        wait_until("it has ended", || terminal.rprof_pid().is_empty());
        assert_eq!(terminal.settings(name), before, "after SIG{signal}");
    }
    begin();
    terminal.key("C-c");
    wait_until("it has ended", || terminal.rprof_pid().is_empty());
    assert_eq!(terminal.settings("control"), before, "after Ctrl-C");
    // To the shell, and back with the same screen.
    begin();
    terminal.keys("2");
    terminal.wait("[2 tree]");
    terminal.key("C-z");
    terminal.wait("topped");
    assert_eq!(terminal.settings("stopped"), before, "after Ctrl-Z");
    terminal.run("clear; fg");
    terminal.wait("[2 tree]");
    terminal.tmux(&["resize-window", "-x", "60", "-y", "12"]);
    terminal.keys("1");
    terminal.wait("[1]");
    terminal.keys("q");
    wait_until("it has ended", || terminal.rprof_pid().is_empty());
    assert_eq!(terminal.settings("end"), before, "after q");
}

#[test]
fn keys_come_from_the_terminal_when_input_is_a_pipe() {
    needs!(File("/usr/bin/tmux"));
    let here = with_stacks();
    let terminal = Terminal::new(&here);
    terminal.run(&format!("cat x.folded | {RPROF} report --tui -i -"));
    terminal.wait("? help");
    terminal.keys("2");
    terminal.wait("[2 tree]");
    terminal.keys("q");
    wait_until("the shell is back", || {
        terminal.screen().trim_end().ends_with("ready>")
    });
}

#[test]
fn without_a_terminal_it_says_so() {
    let here = with_stacks();
    let run = here.rprof("report --tui x.folded").exits(2);
    run.says("needs a terminal");
}
