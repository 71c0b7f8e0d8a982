//! Options that the reports have in common.

use crate::rows::RowOptions;
use crate::verdict::Finding;

/// Options that the reports have in common. Each uses those that mean something for it.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// Selection and order of rows.
    pub rows: RowOptions,
    /// Colour the shares, where the output is for a terminal.
    pub color: bool,
    /// Leave out everything above the rows.
    pub bare: bool,
    /// Width of the terminal that a table is for, in characters: objects are shown by file name,
    /// and long names shortened, so that no row is wider. `None` shows names in full.
    pub width: Option<usize>,
    /// Height of the terminal that a table is for, in lines: as many rows are shown as fit below the verdict, ten at
    /// least, and none that has nothing of what rows are sorted by. `None` shows what [`rows`](Self::rows) says.
    pub height: Option<usize>,
    /// Words the last line of a table from which the limit left out this many rows. `None` leaves
    /// the line out.
    pub rest: Option<fn(usize) -> String>,
    /// Words a finding of the quality verdict: `Display`, or what names a program's own options.
    pub wording: fn(&Finding) -> String,
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            rows: RowOptions::default(),
            color: false,
            bare: false,
            width: None,
            height: None,
            rest: None,
            wording: Finding::to_string,
        }
    }
}
