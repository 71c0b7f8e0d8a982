//! The screen, in a real terminal.

use crate::support::{Here, Report, Tmux, c, needs, wait_until};

const RPROF: &str = env!("CARGO_BIN_EXE_rprof");

fn row(screen: &str, name: &str) -> Option<Vec<String>> {
    let line = screen.lines().find(|line| line.contains(name))?;
    Some(line.split_whitespace().map(str::to_owned).collect())
}

fn begin<'h>(here: &'h Here, options: &str) -> Tmux<'h> {
    let terminal = Tmux::new(here);
    begin_in(&terminal, options);
    terminal
}

fn begin_in(terminal: &Tmux<'_>, options: &str) {
    let program = c("shares.c");
    let options = format!("-F 999 -e cpu-clock {options}");
    terminal.run(&format!(
        "clear; {RPROF} top {options} -- {} 1000",
        program.display()
    ));
    terminal.wait("burn_ten");
}

/// No sample has left the window.
#[test]
fn a_paused_screen_is_what_is_written() {
    needs!(File("/usr/bin/tmux"), PerfEvents);
    let here = Here::new();
    let terminal = begin(&here, "-d 0.5 --window 1000");
    terminal.keys(" ");
    terminal.wait("[paused]");
    // Samples that arrived with the key are settled.
    terminal.keys("w");
    terminal.wait("samples  everything, ");
    terminal.keys("w");
    terminal.wait("samples  window ");
    let screen = terminal.screen();
    terminal.keys("W");
    terminal.wait("wrote perf.data");
    let report = Report::parse(&here.rprof("report --format json").ok());
    let event = report.only();
    let whole: u64 = event.rows.iter().map(|row| row.own).sum();
    for name in ["burn_seventy", "burn_twenty", "burn_ten"] {
        let found = event.row(name);
        let share = |part: u64| format!("{:.2}%", part as f64 * 100.0 / whole as f64);
        let (own, total) = (share(found.own), share(found.total));
        let words = row(&screen, name).unwrap_or_else(|| panic!("{name} is not in\n{screen}"));
        let samples = found.self_samples.to_string();
        assert_eq!(
            words[..5],
            [&*own, &*total, &*samples, &*own, &*total],
            "{screen}"
        );
    }
    assert!(
        screen.contains(&format!("{} samples", event.samples)),
        "{screen}"
    );
    terminal.keys("z");
    wait_until("it goes on", || {
        let screen = terminal.screen();
        !screen.contains("[paused]") && row(&screen, "burn_seventy").is_some()
    });
    terminal.keys("q");
    terminal.wait_for_end();
}

#[test]
fn a_written_window_is_read_by_perf() {
    needs!(File("/usr/bin/tmux"), PerfEvents, Perf);
    let here = Here::new();
    // The file has old sideband records.
    let terminal = begin(&here, "-d 0.2 --window 0.4 -o window.data");
    terminal.keys("w");
    wait_until("there is more than the window has", || {
        let screen = terminal.screen();
        let seconds = screen.split_once("everything, ").map(|(_, rest)| rest);
        let seconds = seconds.and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        seconds.is_some_and(|seconds| seconds >= 2)
    });
    terminal.keys(" W");
    terminal.wait("wrote window.data");
    let report = here
        .perf("report -i window.data --stdio --no-children -g none")
        .ok();
    report.prints("burn_seventy");
    let rows = here.rprof("report -i window.data --format json").ok();
    let report = Report::parse(&rows);
    assert!(
        report.only().self_share("burn_seventy") > 0.3,
        "{}",
        rows.out()
    );
    terminal.keys("q");
    terminal.wait_for_end();
}

#[test]
fn the_terminal_is_left_as_it_was() {
    needs!(File("/usr/bin/tmux"), PerfEvents);
    let here = Here::new();
    let terminal = Tmux::new(&here);
    let before = terminal.settings("before");
    for (name, signal) in [("term", Some("TERM")), ("hup", Some("HUP")), ("quit", None)] {
        begin_in(&terminal, "-d 0.2");
        let pid = terminal.pid();
        let children = format!("/proc/{pid}/task/{pid}/children");
        let command = std::fs::read_to_string(children).expect("no children of rprof");
        match signal {
            Some(signal) => drop(here.sh(&format!("kill -{signal} {pid}")).ok()),
            None => terminal.keys("q"),
        }
        terminal.wait_for_end();
        assert_eq!(terminal.settings(name), before, "after {name}");
        let gone = format!("/proc/{}/exe", command.trim());
        wait_until("the command has ended", || {
            std::fs::read_link(&gone).is_err()
        });
    }
}
