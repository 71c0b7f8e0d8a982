//! Private notes of rprof: the quality tallies.

use super::pmus::{pairs, put_pairs};
use super::{Feature, FeatureSections};

/// Magic string, because another tool may use the same section number.
const MARK: &str = "rprof";

/// Key of the note in an unfinished recording.
pub(crate) const UNFINISHED: &str = "unfinished";

impl FeatureSections {
    /// Returns rprof's private key-value pairs. `None` also if another tool wrote the section.
    pub fn rprof_notes(&self) -> Option<Vec<(String, String)>> {
        let mut section = self.decoder(Feature::RPROF)?;
        if section.string()? != MARK {
            return None;
        }
        pairs(&mut section)
    }

    /// Returns true for a recording of rprof that its recorder did not finish.
    pub fn is_unfinished(&self) -> bool {
        let notes = self.rprof_notes().unwrap_or_default();
        notes.iter().any(|(key, _)| key == UNFINISHED)
    }

    /// Sets rprof's private key-value pairs, such as `lost.cpu3` and `17`, without NULs. perf skips
    /// the section, and its record in pipe mode.
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
