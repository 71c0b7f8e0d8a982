//! A real terminal: tmux, with typed keys and screen captures.

use std::process::Command;

use super::shell::Here;
use super::wait::wait_until;

pub(crate) struct Tmux<'h> {
    here: &'h Here,
    server: String,
}

impl Tmux<'_> {
    pub(crate) fn new(here: &Here) -> Tmux<'_> {
        let number = here.path("").to_string_lossy().replace(['/', '.'], "-");
        let terminal = Tmux {
            here,
            server: format!("rprof-test-{}{number}", std::process::id()),
        };
        let shell = "env -u NO_COLOR -u TMUX PS1='ready> ' LC_ALL=C.UTF-8 sh -i";
        terminal.tmux(&["-u", "new-session", "-d", "-x", "100", "-y", "30", shell]);
        terminal.wait("ready>");
        terminal
    }

    pub(crate) fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.server, "-f", "/dev/null"]);
        command.args(words).current_dir(self.here.path(""));
        let out = command.output().expect("cannot run tmux");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    pub(crate) fn wait(&self, text: &str) {
        wait_until(&format!("the screen has {text:?}"), || {
            self.screen().contains(text)
        });
    }

    pub(crate) fn keys(&self, keys: &str) {
        self.tmux(&["send-keys", "-l", keys]);
    }

    pub(crate) fn key(&self, name: &str) {
        self.tmux(&["send-keys", name]);
    }

    pub(crate) fn run(&self, command: &str) {
        self.keys(command);
        self.key("Enter");
    }

    pub(crate) fn wait_for_end(&self) {
        wait_until("it has ended", || self.pid().is_empty());
    }

    pub(crate) fn settings(&self, name: &str) -> String {
        self.run(&format!("stty -g > {name}.part; mv {name}.part {name}"));
        wait_until("the settings are written", || self.here.path(name).exists());
        std::fs::read_to_string(self.here.path(name)).expect("cannot read settings")
    }

    /// Returns the command's pid, or an empty string.
    pub(crate) fn pid(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        let children = std::fs::read_to_string(children).expect("no children of the shell");
        children.trim().to_owned()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
