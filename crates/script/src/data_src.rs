//! The column of data sources.

use std::io::{self, Write};

use rprof_records::DataSource;

/// Writes the column as wide as its widest value so far, like perf.
#[derive(Debug, Default)]
pub(crate) struct DataSourceColumn {
    width: usize,
}

impl DataSourceColumn {
    pub(crate) fn write(&mut self, source: DataSource, out: &mut dyn Write) -> io::Result<()> {
        let text = format!("{:16x} {source}", source.0);
        self.width = self.width.max(text.len());
        write!(out, "{text:width$}", width = self.width)
    }
}
