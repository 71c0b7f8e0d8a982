//! Text in cells: colours, marks, fitted names.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use rprof_export::clean::shorten;
use rprof_profile::generics::elide_arguments;

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Use the sixteen standard colours. Otherwise use reverse video, bold and underline.
    pub colors: bool,
    /// Use only ASCII characters in marks and bars.
    pub ascii: bool,
}

impl Default for Theme {
    fn default() -> Theme {
        Theme {
            colors: true,
            ascii: false,
        }
    }
}

impl Theme {
    fn colored(self, color: Color) -> Style {
        match self.colors {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    pub(crate) fn heat(self, percent: f64) -> Style {
        match percent {
            5.0.. => self.colored(Color::Red).add_modifier(Modifier::BOLD),
            0.5.. => self.colored(Color::Green),
            _ => Style::new(),
        }
    }

    pub(crate) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub(crate) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn dim(self) -> Style {
        match self.colors {
            true => Style::new().fg(Color::DarkGray),
            false => Style::new(),
        }
    }

    pub(crate) fn matched(self) -> Style {
        self.colored(Color::Magenta)
            .add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
    }

    pub(crate) fn told(self) -> Style {
        self.colored(Color::Yellow)
    }

    /// Style of a flame graph box, by function kind. Neighbours alternate.
    pub(crate) fn flame(self, kind: Kind, is_odd: bool) -> Style {
        let color = match (kind, is_odd) {
            (Kind::User, false) => Color::Yellow,
            (Kind::User, true) => Color::LightYellow,
            (Kind::Kernel, false) => Color::Red,
            (Kind::Kernel, true) => Color::LightRed,
            (Kind::Jit, false) => Color::Green,
            (Kind::Jit, true) => Color::LightGreen,
            (Kind::Unnamed, _) => Color::Gray,
            (Kind::Waiting, false) => Color::Blue,
            (Kind::Waiting, true) => Color::LightBlue,
            (Kind::WaitingForCpu, _) => Color::LightMagenta,
        };
        match self.colors {
            true => Style::new().fg(Color::Black).bg(color),
            false if is_odd => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new().add_modifier(Modifier::REVERSED | Modifier::DIM),
        }
    }

    pub(crate) fn flame_marked(self, is_selected: bool) -> Style {
        let color = match is_selected {
            true => Color::Cyan,
            false => Color::Magenta,
        };
        match (self.colors, is_selected) {
            (true, _) => {
                let style = Style::new().fg(Color::Black).bg(color);
                style.add_modifier(match is_selected {
                    true => Modifier::BOLD,
                    // The colour of a CPU wait is close to the colour of a match.
                    false => Modifier::BOLD | Modifier::UNDERLINED,
                })
            }
            (false, true) => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            (false, false) => Style::new().add_modifier(Modifier::UNDERLINED),
        }
    }

    pub(crate) fn mark(self, mark: char) -> char {
        match (self.ascii, mark) {
            (false, mark) => mark,
            (true, '▸') => '>',
            (true, '▾') => 'v',
            (true, '▪') => '.',
            (true, '▏') => '|',
            (true, '…') => '~',
            (true, _) => '#',
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Kernel,
    Jit,
    Unnamed,
    Waiting,
    /// Runnable, but without a CPU.
    WaitingForCpu,
}

/// Writes at most `width` cells of text, clipped to the buffer. Returns the column after it.
pub(crate) fn put(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    width: usize,
    text: &str,
    style: Style,
) -> u16 {
    let area = buffer.area;
    if x >= area.right() || y >= area.bottom() || width == 0 {
        return x;
    }
    let width = width.min(usize::from(area.right() - x));
    buffer.set_stringn(x, y, text, width, style).0
}

/// Shortens a function name to `width` characters. Removes generic arguments first, then the
/// middle.
pub(crate) fn fitted(name: &str, width: usize, in_full: bool) -> String {
    if in_full || name.chars().count() <= width {
        return name.to_owned();
    }
    shorten(&elide_arguments(name), width).into_owned()
}
