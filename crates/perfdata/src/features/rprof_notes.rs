//! rprof's own notes in a recording: the quality tallies.

use super::pmus::{pairs, put_pairs};
use super::{Feature, FeatureSections};

/// Begins the section, since another tool may use the same number.
const MARK: &str = "rprof";

/// Key of the note in a recording that was not finished.
pub(crate) const UNFINISHED: &str = "unfinished";

impl FeatureSections {
    /// rprof's own notes: pairs of key and value. `None` also when the section
    /// with this number is not rprof's.
    pub fn rprof_notes(&self) -> Option<Vec<(String, String)>> {
        let mut section = self.decoder(Feature::RPROF)?;
        if section.string()? != MARK {
            return None;
        }
        pairs(&mut section)
    }

    /// Sets rprof's own notes: pairs of key and value, as `lost.cpu3` and `17`.
    /// Neither may hold a NUL, which would end it. perf skips the section, and in
    /// pipe mode the record that has it.
    pub fn insert_rprof_notes(&mut self, notes: &[(String, String)]) {
        self.encode(Feature::RPROF, |out| {
            out.string(MARK);
            put_pairs(out, notes);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn notes_are_read_and_others_sections_are_not() {
        in_both_orders(|f| {
            let notes = [("lost.cpu3".to_owned(), "17".to_owned())];
            f.insert_rprof_notes(&notes);
            assert_eq!(f.rprof_notes().unwrap(), notes);
            f.insert_string(Feature::RPROF, "somebody");
            assert_eq!(f.rprof_notes(), None);
        });
    }
}
