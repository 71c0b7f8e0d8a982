//! Recording machine, and the recorder's command line.

use super::codec::Decoder;
use super::{Feature, FeatureSections};

impl FeatureSections {
    /// Returns a section with one string: HOSTNAME, OSRELEASE, VERSION, ARCH, CPUDESC, CPUID.
    pub fn string(&self, feature: Feature) -> Option<String> {
        self.decoder(feature)?.string()
    }

    /// Adds a section with one string.
    pub fn insert_string(&mut self, feature: Feature, text: &str) {
        self.encode(feature, |out| out.string(text));
    }

    /// Returns the recorder's command line.
    pub fn command_line(&self) -> Option<Vec<String>> {
        self.decoder(Feature::CMDLINE)?.list(4, Decoder::string)
    }

    /// Sets the command line.
    pub fn insert_command_line(&mut self, args: &[String]) {
        self.encode(Feature::CMDLINE, |out| {
            out.list(args, |out, arg| out.string(arg));
        });
    }

    /// Returns the numbers of available CPUs and of online CPUs.
    pub fn cpu_counts(&self) -> Option<(u32, u32)> {
        let mut section = self.decoder(Feature::NRCPUS)?;
        Some((section.u32()?, section.u32()?))
    }

    /// Sets the numbers of available CPUs and of online CPUs.
    pub fn insert_cpu_counts(&mut self, available: u32, online: u32) {
        self.encode(Feature::NRCPUS, |out| {
            out.u32(available);
            out.u32(online);
        });
    }

    /// Returns the memory in KiB.
    pub fn total_memory(&self) -> Option<u64> {
        self.decoder(Feature::TOTAL_MEM)?.u64()
    }

    /// Returns the cache line size in bytes (CLN_SIZE).
    pub fn cache_line_size(&self) -> Option<u32> {
        self.decoder(Feature::CLN_SIZE)?.u32()
    }

    /// Sets the cache line size in bytes.
    pub fn insert_cache_line_size(&mut self, bytes: u32) {
        self.encode(Feature::CLN_SIZE, |out| out.u32(bytes));
    }

    /// Adds a section of 64-bit words: TOTAL_MEM, SAMPLE_TIME, CLOCKID, DIR_FORMAT.
    pub fn insert_words(&mut self, feature: Feature, words: &[u64]) {
        self.encode(feature, |out| words.iter().for_each(|w| out.u64(*w)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            f.insert_string(Feature::HOSTNAME, "somewhere");
            f.insert_command_line(&["rprof".into(), "record".into()]);
            f.insert_cpu_counts(4, 2);
            f.insert_words(Feature::TOTAL_MEM, &[77]);
            f.insert_cache_line_size(64);
            assert_eq!(f.string(Feature::HOSTNAME).as_deref(), Some("somewhere"));
            assert_eq!(f.command_line().unwrap(), ["rprof", "record"]);
            assert_eq!(f.cpu_counts(), Some((4, 2)));
            assert_eq!(f.total_memory(), Some(77));
            assert_eq!(f.cache_line_size(), Some(64));
        });
    }

    #[test]
    fn a_string_cut_off_is_none() {
        in_both_orders(|f| {
            f.insert_string(Feature::HOSTNAME, "somewhere");
            let bytes = f.get(Feature::HOSTNAME).unwrap().to_vec();
            f.insert(Feature::HOSTNAME, bytes[..20].to_vec());
            assert_eq!(f.string(Feature::HOSTNAME), None);
        });
    }
}
