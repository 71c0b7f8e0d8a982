//! Text in cells: colours, marks, names that fit.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use rprof_export::clean::shorten;
use rprof_profile::generics::elide_arguments;

/// Look of the screen: what the terminal is able to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Use the sixteen colours that each terminal has; without them reverse video, bold and underlined text are left.
    pub colors: bool,
    /// Use no characters but those of ASCII in marks and bars.
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

    /// Style of a share: much, some, little.
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

    /// Style of a box of the flame graph, by the kind of its function; neighbours alternate.
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

    /// Style of a box that is selected, or matches the search.
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
                    // A wait for a CPU has nearly the colour of a match.
                    false => Modifier::BOLD | Modifier::UNDERLINED,
                })
            }
            (false, true) => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            (false, false) => Style::new().add_modifier(Modifier::UNDERLINED),
        }
    }

    /// Returns a mark, or what stands for it in ASCII.
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

/// Kind of a function, by which boxes are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Kernel,
    Jit,
    Unnamed,
    Waiting,
    /// Wait of a thread that could run, and had no CPU.
    WaitingForCpu,
}

/// Writes text into a row, no wider than `width` cells, and nothing outside of the buffer. Returns the column behind it.
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

/// Returns the name of a function in no more than `width` characters: without generic arguments if it is longer, and then
/// without its middle.
pub(crate) fn fitted(name: &str, width: usize, in_full: bool) -> String {
    if in_full || name.chars().count() <= width {
        return name.to_owned();
    }
    shorten(&elide_arguments(name), width).into_owned()
}
