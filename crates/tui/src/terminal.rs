//! Event loop on a real terminal. It restores the terminal, however the loop ends.
//!
//! Only keys, signals and [sent events](Sender) wake the loop. It uses no CPU time while idle.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    KeyCode, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::event::{Effect, InputEvent};
use crate::keys::Key;
use crate::{Source, State, Theme};

enum Input {
    Event(InputEvent),
    Signal(i32),
    /// End of the key input, or a panic in any thread.
    Ended,
}

/// Reason why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user quit.
    Quit,
    /// A signal arrived. The caller should terminate with its default action.
    Signal(i32),
    /// The terminal disappeared.
    Gone,
}

/// Event queue of a loop.
pub struct Inbox {
    sender: mpsc::Sender<Input>,
    receiver: mpsc::Receiver<Input>,
}

/// Sends events to a loop from any thread.
#[derive(Clone)]
pub struct Sender(mpsc::Sender<Input>);

impl Inbox {
    /// Creates an empty queue.
    pub fn new() -> Inbox {
        let (sender, receiver) = mpsc::channel();
        Inbox { sender, receiver }
    }

    /// Returns a sender for this queue.
    pub fn sender(&self) -> Sender {
        Sender(self.sender.clone())
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new()
    }
}

impl Sender {
    /// Sends an event. Returns false if the loop has ended.
    pub fn send(&self, event: InputEvent) -> bool {
        self.0.send(Input::Event(event)).is_ok()
    }
}

/// True while the terminal is in full-screen mode.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Shows a profile until the user quits. Reads keys from the terminal even if standard input is
/// redirected.
///
/// `handle` performs the effects and may return an event. The user interface blocks until it
/// returns.
///
/// # Errors
/// Fails if standard output is no terminal or is closed.
pub fn run(
    source: Source,
    theme: Theme,
    inbox: &Inbox,
    mut handle: impl FnMut(Effect) -> Option<InputEvent>,
) -> io::Result<End> {
    let (width, height) = size().unwrap_or((80, 24));
    let mut state = State::new(source, width, height);
    let guard = Guard::enter(inbox.sender.clone())?;
    let mut terminal = Canvas::new(width, height);
    let signals = forward_signals(inbox.sender.clone())?;
    forward_keys(inbox.sender.clone());
    let end = turn(&mut state, theme, &mut terminal, inbox, &mut handle);
    signals.close();
    drop(guard);
    end
}

fn turn(
    state: &mut State,
    theme: Theme,
    terminal: &mut Canvas,
    inbox: &Inbox,
    handle: &mut impl FnMut(Effect) -> Option<InputEvent>,
) -> io::Result<End> {
    loop {
        terminal.draw(state, theme)?;
        let Ok(first) = inbox.receiver.recv() else {
            return Ok(End::Gone);
        };
        for input in std::iter::once(first).chain(inbox.receiver.try_iter()) {
            match input {
                Input::Ended => return Ok(End::Gone),
                Input::Signal(SIGCONT) => {
                    enter()?;
                    resize(state, terminal)?;
                }
                Input::Signal(SIGTSTP) => stop(state, terminal)?,
                Input::Signal(signal) => return Ok(End::Signal(signal)),
                Input::Event(event) => {
                    for effect in state.update(event) {
                        match effect {
                            Effect::Quit => return Ok(End::Quit),
                            Effect::Suspend => stop(state, terminal)?,
                            Effect::Redraw => terminal.clear(state)?,
                            Effect::Copy(text) => copy(&text)?,
                            effect => {
                                if let Some(event) = handle(effect) {
                                    state.update(event);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Screen that writes only changed cells.
///
/// ratatui's `Terminal` queries the cursor position before it clears. The reply would go to the
/// thread that reads keys, which is blocked in a read.
struct Canvas {
    backend: CrosstermBackend<io::Stdout>,
    shown: Buffer,
}

impl Canvas {
    fn new(width: u16, height: u16) -> Canvas {
        Canvas {
            backend: CrosstermBackend::new(io::stdout()),
            shown: Buffer::empty(Rect::new(0, 0, width, height)),
        }
    }

    fn draw(&mut self, state: &State, theme: Theme) -> io::Result<()> {
        let mut next = Buffer::empty(self.shown.area);
        crate::draw(state, theme, &mut next);
        self.backend.draw(self.shown.diff(&next).into_iter())?;
        Backend::flush(&mut self.backend)?;
        self.shown = next;
        Ok(())
    }

    fn clear(&mut self, state: &State) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        let (width, height) = (state.screen.width, state.screen.height);
        self.shown = Buffer::empty(Rect::new(0, 0, width, height));
        Ok(())
    }
}

/// Restores the terminal, stops the process as job control does, and resumes on SIGCONT.
fn stop(state: &mut State, terminal: &mut Canvas) -> io::Result<()> {
    leave();
    emulate_default_handler(SIGTSTP)?;
    enter()?;
    resize(state, terminal)
}

fn resize(state: &mut State, terminal: &mut Canvas) -> io::Result<()> {
    if let Ok((width, height)) = size() {
        state.update(InputEvent::Resize(width, height));
    }
    terminal.clear(state)
}

/// Full-screen mode of the terminal, restored on drop.
struct Guard;

impl Guard {
    fn enter(sender: mpsc::Sender<Input>) -> io::Result<Guard> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            // A panic in another thread also ends the loop, because the hook restored the terminal.
            sender.send(Input::Ended).ok();
            before(panic);
        }));
        let guard = Guard;
        enter()?;
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave();
        if !thread::panicking() {
            // Our hook wraps the previous one. From now on it does not touch the terminal.
            IS_OURS.store(false, Ordering::SeqCst);
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    IS_OURS.store(true, Ordering::SeqCst);
    let mut out = io::stdout();
    execute!(
        out,
        EnterAlternateScreen,
        EnableMouseCapture,
        EnableBracketedPaste,
        cursor::Hide
    )
}

fn leave() {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    // Errors are irrelevant: the terminal may be gone.
    execute!(
        out,
        cursor::Show,
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen
    )
    .ok();
    disable_raw_mode().ok();
}

fn forward_signals(sender: mpsc::Sender<Input>) -> io::Result<signal_hook::iterator::Handle> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT])?;
    let handle = signals.handle();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if sender.send(Input::Signal(signal)).is_err() {
                    break;
                }
            }
        })?;
    Ok(handle)
}

fn forward_keys(sender: mpsc::Sender<Input>) {
    let read = move || {
        loop {
            let Ok(event) = event::read() else {
                sender.send(Input::Ended).ok();
                return;
            };
            if let Some(event) = translated(event)
                && sender.send(Input::Event(event)).is_err()
            {
                return;
            }
        }
    };
    // If the thread cannot start, only signals end the loop. This is too rare to report.
    thread::Builder::new().name("keys".into()).spawn(read).ok();
}

fn translated(event: event::Event) -> Option<InputEvent> {
    match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => {
            let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
            Some(InputEvent::Key(match key.code {
                KeyCode::Char(c) if is_control => Key::Ctrl(c.to_ascii_lowercase()),
                KeyCode::Char(c) => Key::Char(c),
                KeyCode::Enter => Key::Enter,
                KeyCode::Esc => Key::Esc,
                KeyCode::Tab => Key::Tab,
                KeyCode::BackTab => Key::BackTab,
                KeyCode::Backspace => Key::Backspace,
                KeyCode::Up => Key::Up,
                KeyCode::Down => Key::Down,
                KeyCode::Left => Key::Left,
                KeyCode::Right => Key::Right,
                KeyCode::PageUp => Key::PageUp,
                KeyCode::PageDown => Key::PageDown,
                KeyCode::Home => Key::Home,
                KeyCode::End => Key::End,
                KeyCode::F(1) => Key::F1,
                _ => return None,
            }))
        }
        event::Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                Some(InputEvent::Click(mouse.column, mouse.row))
            }
            MouseEventKind::Drag(MouseButton::Left) => {
                Some(InputEvent::Drag(mouse.column, mouse.row))
            }
            MouseEventKind::ScrollUp => Some(InputEvent::Scroll(-3)),
            MouseEventKind::ScrollDown => Some(InputEvent::Scroll(3)),
            _ => None,
        },
        event::Event::Paste(text) => Some(InputEvent::Paste(text)),
        event::Event::Resize(width, height) => Some(InputEvent::Resize(width, height)),
        _ => None,
    }
}

/// Copies text to the terminal's clipboard (OSC 52 of xterm's control sequences).
fn copy(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    write!(out, "\x1b]52;c;{}\x07", base64(text.as_bytes()))?;
    out.flush()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: [char; 64] = {
        let mut digits = ['+'; 64];
        let mut at = 0;
        while at < 63 {
            digits[at] = match at {
                0..26 => (b'A' + at as u8) as char,
                26..52 => (b'a' + (at - 26) as u8) as char,
                52..62 => (b'0' + (at - 52) as u8) as char,
                _ => '+',
            };
            at += 1;
        }
        digits[63] = '/';
        digits
    };
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            match digit <= three.len() {
                true => text.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{3ff}\u{ffff}", "z7/vv78="),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
