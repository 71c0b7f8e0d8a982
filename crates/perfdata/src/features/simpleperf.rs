//! Sections of Android's simpleperf.

use super::codec::text;
use super::{Feature, FeatureSections};

impl FeatureSections {
    /// Returns simpleperf's key-value pairs, such as `android_version`. Source: simpleperf's
    /// `record_file_format.h`.
    pub fn simpleperf_meta_info(&self) -> Option<Vec<(String, String)>> {
        let section = self.get(Feature::SIMPLEPERF_META_INFO)?;
        // A NUL ends each key and each value.
        let mut texts = section.split_inclusive(|b| *b == 0);
        let mut pairs = Vec::new();
        while let (Some(key), Some(value)) = (texts.next(), texts.next()) {
            if value.last() != Some(&0) {
                return None;
            }
            pairs.push((text(key), text(value)));
        }
        Some(pairs)
    }

    /// Sets simpleperf's key-value pairs.
    pub fn insert_simpleperf_meta_info(&mut self, pairs: &[(String, String)]) {
        self.encode(Feature::SIMPLEPERF_META_INFO, |out| {
            for text in pairs.iter().flat_map(|(key, value)| [key, value]) {
                out.bytes.extend_from_slice(text.as_bytes());
                out.zeros(1);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            let pairs = [
                ("app_package_name".to_owned(), String::new()),
                ("simpleperf_version".into(), "1.build".into()),
            ];
            f.insert_simpleperf_meta_info(&pairs);
            assert_eq!(f.simpleperf_meta_info().unwrap(), pairs);
        });
    }
}
