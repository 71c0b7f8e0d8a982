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
    /// Words a finding of the quality verdict: `Display`, or what names a program's own options.
    pub wording: fn(&Finding) -> String,
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            rows: RowOptions::default(),
            color: false,
            bare: false,
            wording: Finding::to_string,
        }
    }
}
