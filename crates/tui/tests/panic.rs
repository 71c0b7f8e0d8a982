//! A panic restores the terminal. The test runs itself again in tmux and panics there.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rprof_profile::{ProfileBuilder, WeighBy, WeightUnit};
use rprof_testing::needs;
use rprof_tui::terminal::{self, Inbox};
use rprof_tui::{Effect, InputEvent, Key, Source, Theme};

/// Timeout, generous for a busy machine.
const HANG: Duration = Duration::from_secs(120);

/// Shows a profile and immediately annotates its function, which calls `panics`.
fn show(panics: fn()) {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cycles", WeightUnit::Events);
    let (thread, object) = (builder.intern_thread_name("t"), builder.intern_object("/o"));
    let spin = builder.intern_function(Ok("spin"), object);
    let stack = builder.intern_stack(&[spin]);
    builder.add_samples(event, thread, stack, 1, 1);
    let source = Source {
        profile: Arc::new(builder.finish()),
        event,
        weight: WeighBy::Period,
        title: "spin".to_owned(),
        about: String::new(),
        by_total: false,
        facts: Vec::new(),
        hint: None,
        command: Vec::new(),
        generation: 0,
        live: None,
    };
    let inbox = Inbox::new();
    inbox.sender().send(InputEvent::Key(Key::Char('a')));
    let end = terminal::run(source, Theme::default(), &inbox, |effect| {
        if let Effect::Annotate(_) = effect {
            panics();
        }
        None
    });
    panic!("the loop ended: {end:?}");
}

#[test]
#[ignore = "run by the tests below, in a terminal of its own"]
fn panic_in_the_loop() {
    show(|| panic!("on purpose"));
}

#[test]
#[ignore = "run by the tests below, in a terminal of its own"]
fn panic_of_another_thread() {
    show(|| drop(std::thread::spawn(|| panic!("on purpose"))));
}

fn tmux(server: &str, words: &[&str]) -> String {
    let mut command = Command::new("tmux");
    command.args(["-L", server, "-f", "/dev/null"]).args(words);
    let out = command.output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn wait_for(path: &Path) -> String {
    let until = Instant::now() + HANG;
    while !path.exists() {
        assert!(Instant::now() < until, "{} did not come", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(path).unwrap()
}

fn leaves_the_terminal(name: &str) {
    let folder = std::env::temp_dir().join(format!("rprof-{name}-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "cd {}; stty -g > before; {} --ignored --exact {name} --nocapture; stty -g > part; mv part after; cat",
        folder.display(),
        program.display()
    );
    let server = format!("rprof-{name}-{}", std::process::id());
    tmux(
        &server,
        &["new-session", "-d", "-x", "100", "-y", "30", &script],
    );
    let after = wait_for(&folder.join("after"));
    let before = wait_for(&folder.join("before"));
    let screen = tmux(&server, &["capture-pane", "-p", "-S", "-1000"]);
    let is_other = tmux(
        &server,
        &["display-message", "-p", "#{alternate_on}#{mouse_any_flag}"],
    );
    tmux(&server, &["kill-server"]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(after, before);
    // The panic message is on the normal screen, not on the alternate one.
    assert!(screen.contains("on purpose"), "{screen}");
    assert_eq!(is_other.trim(), "00");
}

#[test]
fn a_panic_in_the_loop_leaves_the_terminal_as_it_was() {
    needs!(File("/usr/bin/tmux"));
    leaves_the_terminal("panic_in_the_loop");
}

#[test]
fn a_panic_of_another_thread_leaves_the_terminal_as_it_was() {
    needs!(File("/usr/bin/tmux"));
    leaves_the_terminal("panic_of_another_thread");
}
