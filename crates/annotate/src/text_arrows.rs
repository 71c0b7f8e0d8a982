//! Arrows of jumps in the margin of a listing.

use crate::flow::Arrow;

/// Margin of a listing: one column per lane.
pub(crate) struct Lanes {
    /// Cells by instruction, then by lane, outermost first.
    cells: Vec<Vec<Cell>>,
    width: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    /// A line continues above or below.
    up: bool,
    down: bool,
    /// A line leads to the instruction.
    right: bool,
    /// A line from an outer lane passes.
    across: bool,
    is_target: bool,
}

impl Lanes {
    pub(crate) fn new(arrows: &[Arrow], count: usize) -> Lanes {
        let width = arrows.iter().map(|arrow| arrow.lane + 1).max().unwrap_or(0);
        let mut cells = vec![vec![Cell::default(); width]; count];
        for arrow in arrows {
            let (first, last) = arrow.span();
            let column = width - 1 - arrow.lane;
            for row in cells.get_mut(first..=last).unwrap_or_default() {
                if let Some(cell) = row.get_mut(column) {
                    (cell.up, cell.down) = (true, true);
                }
            }
            let ends = arrow.sources.iter().copied().chain([arrow.target]);
            for at in ends {
                let Some(row) = cells.get_mut(at) else {
                    continue;
                };
                for cell in row.get_mut(column + 1..).unwrap_or_default() {
                    cell.across = true;
                    cell.is_target |= at == arrow.target;
                }
                if let Some(cell) = row.get_mut(column) {
                    cell.right = true;
                    cell.is_target |= at == arrow.target;
                }
            }
            if let Some(cell) = cells.get_mut(first).and_then(|row| row.get_mut(column)) {
                cell.up = false;
            }
            if let Some(cell) = cells.get_mut(last).and_then(|row| row.get_mut(column)) {
                cell.down = false;
            }
        }
        Lanes { cells, width }
    }

    pub(crate) fn at(&self, index: usize) -> String {
        let Some(row) = self.cells.get(index).filter(|_| self.width > 0) else {
            return String::new();
        };
        let mut text: String = row.iter().map(|cell| cell.sign()).collect();
        let is_touched = row.iter().any(|cell| cell.right);
        let is_target = row.iter().any(|cell| cell.right && cell.is_target);
        text.push(match (is_touched, is_target) {
            (_, true) => '▸',
            (true, false) => '─',
            _ => ' ',
        });
        text
    }

    pub(crate) fn before(&self, index: usize) -> String {
        let row = self.cells.get(index).filter(|_| self.width > 0);
        row.map_or_else(String::new, |row| {
            let signs = row.iter().map(|cell| if cell.up { '│' } else { ' ' });
            signs.chain([' ']).collect()
        })
    }
}

impl Cell {
    fn sign(self) -> char {
        match (self.up, self.down, self.right, self.across) {
            (true, true, true, _) => '├',
            (true, true, false, true) => '┼',
            (true, true, false, false) => '│',
            (false, true, ..) => '┌',
            (true, false, ..) => '└',
            // A jump to itself.
            (false, false, true, _) => '─',
            (false, false, false, true) => '─',
            (false, false, false, false) => ' ',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_lead_from_jumps_to_targets() {
        let arrow = |target, sources: &[usize], lane| Arrow {
            target,
            sources: sources.to_vec(),
            lane,
        };
        let lanes = Lanes::new(&[arrow(1, &[3], 0), arrow(4, &[0, 2], 1)], 6);
        let drawn: Vec<String> = (0..6).map(|at| lanes.at(at)).collect();
        assert_eq!(drawn, ["┌──", "│┌▸", "├┼─", "│└─", "└─▸", "   "]);
        assert_eq!(lanes.before(2), "││ ");
        assert_eq!(lanes.before(1), "│  ");
        assert_eq!(Lanes::new(&[], 3).at(1), "");
    }
}
