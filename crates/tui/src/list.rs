//! [`List`]: selection and scroll position. [`Screen`]: layout of the screen.

/// Selected row, and the first row on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) selected: usize,
    pub(crate) offset: usize,
}

impl List {
    pub(crate) fn move_by(&mut self, rows: isize, len: usize) {
        let last = len.saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(rows).min(last);
    }

    /// Limits the selection to `len` rows, and scrolls so that it is one of `height` visible rows.
    pub(crate) fn settle(&mut self, len: usize, height: usize) {
        self.selected = self.selected.min(len.saturating_sub(1));
        let height = height.max(1);
        self.offset = (self.offset)
            .min(self.selected)
            .max((self.selected + 1).saturating_sub(height))
            .min(
                len.saturating_sub(height)
                    .max(self.selected.saturating_sub(height - 1)),
            );
    }
}

/// Size of the screen. Small screens omit some lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) width: u16,
    pub(crate) height: u16,
}

impl Screen {
    pub(crate) fn title(self) -> Option<u16> {
        (self.height >= 10).then_some(0)
    }

    pub(crate) fn tabs(self) -> Option<u16> {
        match self.height {
            0..6 => None,
            6..10 => Some(0),
            _ => Some(1),
        }
    }

    pub(crate) fn heading(self) -> Option<u16> {
        match self.height {
            0..4 => None,
            4..6 => Some(0),
            6..10 => Some(1),
            _ => Some(2),
        }
    }

    pub(crate) fn body(self) -> (u16, u16) {
        let top = self.heading().map_or(0, |row| row + 1);
        let below = match self.height {
            0..2 => 0,
            2..10 => 1,
            _ => 2,
        };
        (top, self.height.saturating_sub(top + below))
    }

    pub(crate) fn status(self) -> Option<u16> {
        match self.height {
            0..2 => None,
            2..10 => Some(self.height - 1),
            _ => Some(self.height - 2),
        }
    }

    pub(crate) fn command(self) -> Option<u16> {
        (self.height >= 10).then(|| self.height - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_on_the_screen() {
        for len in 0..12usize {
            for height in 1..14usize {
                for selected in 0..14 {
                    for offset in 0..14 {
                        let mut list = List { selected, offset };
                        list.settle(len, height);
                        assert!(list.selected < len.max(1));
                        assert!((list.offset..list.offset + height).contains(&list.selected));
                        assert!(
                            list.offset + height <= len.max(height),
                            "{list:?} {len} {height}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn rows_of_the_screen_are_apart() {
        for height in 0..40 {
            let screen = Screen { width: 80, height };
            let (top, rows) = screen.body();
            let others = [
                screen.title(),
                screen.tabs(),
                screen.heading(),
                screen.status(),
                screen.command(),
            ];
            let others: Vec<u16> = others.into_iter().flatten().collect();
            assert_eq!(others.len() + usize::from(rows), usize::from(height));
            assert!(
                others
                    .iter()
                    .all(|row| *row < height && !(top..top + rows).contains(row))
            );
        }
    }
}
