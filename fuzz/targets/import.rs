//! Imports profiles of other tools.
//!
//! Input: a byte for the format, then an uncompressed file. Imported stacks must refer to valid
//! names, and sums must equal the stacks' sums.

use std::path::Path;

use rprof_import::{Format, ImportOptions, Opened, ReadingBudget, detect, read};
use rprof_profile::{Filter, Reason, SampleStreams};

pub(crate) fn run(data: &[u8]) {
    let Some((what, data)) = data.split_first() else {
        return;
    };
    for at_end in [false, true] {
        let _ = detect(data, at_end);
    }
    let _ = Opened::new(std::io::Cursor::new(data.to_vec()));
    let formats = [
        Format::Pprof,
        Format::PerfScript,
        Format::Json,
        Format::Folded,
        Format::Gperftools,
    ];
    let format = formats[usize::from(what & 0x3f) % formats.len()];
    for by_thread in [false, true] {
        let options = ImportOptions {
            by_thread,
            columns: by_thread,
            streams: what & 0x40 > 0,
            budget: ReadingBudget::new(64 << 20),
            filter: Filter {
                symbols: if what & 0x80 == 0 {
                    Vec::new()
                } else {
                    vec!["m*".to_owned()]
                },
                ..Filter::default()
            },
        };
        let Ok(profile) = read(format, data, Path::new("x"), &options) else {
            continue;
        };
        for entry in &profile.aggregated {
            for frame in profile.frames(entry.stack) {
                let function = profile.function(profile.frame(frame).function);
                assert!(matches!(function.name, Ok(_) | Err(Reason::NotInInput)));
                let _ = profile.object(function.object);
            }
            let _ = profile.comm(entry.thread);
        }
        for (index, event) in profile.events.iter().enumerate() {
            let of_event = profile
                .aggregated
                .iter()
                .filter(|entry| entry.event == index);
            let samples = of_event.fold(0u64, |sum, entry| sum.saturating_add(entry.samples));
            assert_eq!(samples, event.samples);
        }
        for sample in profile.streams.iter().flat_map(SampleStreams::iter) {
            assert!(profile.aggregated.get(sample.entry as usize).is_some());
        }
    }
}
