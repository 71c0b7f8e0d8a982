//! `rprof report --tui` in a real terminal: tmux, with typed keys and screen captures.

use crate::support::{Here, Tmux, needs, wait_until};

const RPROF: &str = env!("CARGO_BIN_EXE_rprof");

const STACKS: &str =
    "main;parse;hash 31\nmain;parse;copy 12\nmain;walk;walk 8\nmain;other\u{1b}[31m 3\n";

fn with_stacks() -> Here {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), STACKS).expect("cannot write folded stacks");
    here
}

#[test]
fn numbers_are_those_of_the_json_report() {
    needs!(File("/usr/bin/tmux"));
    let here = with_stacks();
    let terminal = Tmux::new(&here);
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

#[test]
fn the_terminal_is_left_as_it_was() {
    needs!(File("/usr/bin/tmux"));
    let here = with_stacks();
    let terminal = Tmux::new(&here);
    let before = terminal.settings("before");
    let begin = || {
        terminal.run(&format!("clear; {RPROF} report --tui x.folded"));
        terminal.wait("? help");
    };
    for (name, signal) in [("term", "TERM"), ("int", "INT"), ("hup", "HUP")] {
        begin();
        let pid = terminal.pid();
        here.sh(&format!("kill -{signal} {pid}")).ok();
        terminal.wait_for_end();
        assert_eq!(terminal.settings(name), before, "after SIG{signal}");
    }
    begin();
    terminal.key("C-c");
    terminal.wait_for_end();
    assert_eq!(terminal.settings("control"), before, "after Ctrl-C");
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
    terminal.wait_for_end();
    assert_eq!(terminal.settings("end"), before, "after q");
}

#[test]
fn keys_come_from_the_terminal_when_input_is_a_pipe() {
    needs!(File("/usr/bin/tmux"));
    let here = with_stacks();
    let terminal = Tmux::new(&here);
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

#[test]
fn code_of_the_selected_function_is_a_page() {
    needs!(File("/usr/bin/tmux"), PerfEvents);
    let here = Here::new();
    let program = crate::support::c_with("shares.c", &["-O1", "-g"]);
    here.record("-F 999 -e cpu-clock -g", &program, "0.5");
    let terminal = Tmux::new(&here);
    terminal.run(&format!("{RPROF} report --tui"));
    terminal.wait("burn_seventy");
    terminal.keys("/burn_seventy");
    terminal.key("Enter");
    terminal.keys("a");
    terminal.wait("shares of all samples");
    let screen = terminal.screen();
    let listing = here.rprof("annotate burn_seventy --color never").ok().out();
    let line = listing.lines().find(|line| line.contains("shares.c"));
    let line = line.expect("no line of the source").trim_end();
    let shown: String = line.chars().take(60).collect();
    assert!(screen.contains(&shown), "{shown:?} is not in\n{screen}");
    terminal.key("Escape");
    // A key immediately after Escape would be an Alt key.
    wait_until("the code is gone", || {
        !terminal.screen().contains("shares of all samples")
    });
    terminal.keys("q");
    terminal.wait_for_end();
}

#[test]
fn what_has_no_code_says_so() {
    needs!(File("/usr/bin/tmux"));
    let here = with_stacks();
    let terminal = Tmux::new(&here);
    terminal.run(&format!("{RPROF} report --tui x.folded"));
    terminal.wait("? help");
    terminal.keys("a");
    terminal.wait("no addresses");
    terminal.keys("q");
    terminal.wait_for_end();
}

#[test]
fn options_of_the_table_are_refused_or_honoured() {
    let here = with_stacks();
    for options in [
        "-s comm",
        "-n 5",
        "-g",
        "--no-children",
        "--percent-limit 1",
        "--format json",
    ] {
        let run = here.rprof("report --tui x.folded").words(options).exits(2);
        run.says("cannot be used with");
    }
    needs!(File("/usr/bin/tmux"));
    let terminal = Tmux::new(&here);
    terminal.run(&format!("{RPROF} report --tui --children x.folded"));
    terminal.wait("total%↓");
    terminal.keys("q");
    terminal.wait_for_end();
}
