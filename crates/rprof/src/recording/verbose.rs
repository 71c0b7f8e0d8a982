//! Messages of `record -v`.

use indicatif::BinaryBytes;
use rprof_export::clean::brief;
use rprof_profile::unit::counted;
use rprof_recorder::{Recording, Summary};
use rprof_records::AttrFlags;

use crate::wording::messages::say;

/// Prints the opened events and ring buffers.
pub(crate) fn describe(recording: &Recording) {
    let session = recording.session();
    for event in session.events() {
        let attr = &event.attr;
        let rate = match attr.flags.contains(AttrFlags::FREQ) {
            true => format!("{} a second", attr.period_or_freq),
            false if attr.period_or_freq == 0 => "no samples".to_owned(),
            false => format!("every {}", attr.period_or_freq),
        };
        say(format_args!(
            "event {}: type {}, config {:#x}, {rate}, opened {}",
            event.name,
            attr.kind.0,
            attr.config,
            counted(event.ids.len() as u64, "time")
        ));
    }
    let cpus: Vec<_> = session.cpus().iter().map(ToString::to_string).collect();
    say(format_args!("CPUs: {}", cpus.join(", ")));
    let (samples, sideband) = session.ring_bytes();
    say(format_args!(
        "rings of each CPU: {} for samples, {} for names and mappings",
        BinaryBytes(samples as u64),
        BinaryBytes(sideband as u64)
    ));
    if !session.has_exact_watermarks() {
        say("the reader threads are not pinned to their CPUs: records are ordered to within 1 ms");
    }
    let attached = session.attached().len();
    if attached > 0 {
        say(format_args!(
            "attached to {}",
            counted(attached as u64, "thread")
        ));
    }
}

/// Prints embedded files and dropped samples.
pub(crate) fn describe_end(summary: &Summary) {
    for file in &summary.embedded {
        let path = brief(&file.path.to_string_lossy());
        let size = BinaryBytes(file.bytes);
        say(format_args!("embedded in the recording: {path} ({size})"));
    }
    if summary.rejected > 0 {
        say(format_args!(
            "dropped {}: duplicates from a thread with an inherited event and one of its \
             own, or samples of rprof itself",
            counted(summary.rejected, "sample")
        ));
    }
}
