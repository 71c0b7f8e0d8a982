//! Hostile names, in every output format.

use std::io::{Cursor, Write};
use std::path::Path;

use rprof_analysis::{Options, analyse};
use rprof_export::svg::{self, SvgOptions};
use rprof_export::{FORMATS, ReportOptions, RowOptions, verdict};
use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, PerfData, RecordWriter};
use rprof_profile::{Keys, Profile};
use rprof_records::{Attr, AttrFlags, Endian, EventKind, Misc, RecordType, SampleType, put_record};
use rprof_symbols::Symbolizer;

/// Clears the terminal, reverses the text direction, ends the line.
const HOSTILE: &str = "evil\x1b[2J\u{202e}\n\u{9b}31m";

/// Returns a recording with hostile names of its event, thread and program.
fn profile() -> Profile {
    let event = EventDescription {
        attr: Attr {
            kind: EventKind::SOFTWARE,
            period_or_freq: 1000,
            sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        },
        name: HOSTILE.into(),
        ids: Vec::new(),
    };
    let endian = Endian::NATIVE;
    let mut records = Vec::new();
    let mut put = |kind, misc, fields: &dyn Fn(&mut Vec<u8>)| {
        put_record(&mut records, kind, misc, endian, |out| fields(out)).unwrap();
    };
    let ids = |out: &mut Vec<u8>| out.extend([7, 7].map(|id| endian.put_u32(id)).concat());
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend_from_slice(text.as_bytes());
        out.resize((out.len() + 1).next_multiple_of(8), 0);
    };
    let trailer = |out: &mut Vec<u8>, time| {
        ids(out);
        out.extend(endian.put_u64(time));
    };
    put(RecordType::COMM, Misc(0), &|out| {
        ids(out);
        text(out, HOSTILE);
        trailer(out, 1);
    });
    put(RecordType::MMAP, Misc::USER, &|out| {
        ids(out);
        for word in [0x1000, 0x1000, 0] {
            out.extend(endian.put_u64(word));
        }
        text(out, &format!("/nonexistent/{HOSTILE}"));
        trailer(out, 2);
    });
    put(RecordType::SAMPLE, Misc::USER, &|out| {
        out.extend(endian.put_u64(0x1234));
        trailer(out, 3);
    });
    let mut bytes = Vec::new();
    let mut writer = FileWriter::create(Cursor::new(&mut bytes), vec![event]).unwrap();
    writer.write_records(&records).unwrap();
    writer.finish(FeatureSections::new(endian)).unwrap();
    let data = PerfData::read(&bytes[..], Path::new("test")).unwrap();
    let symbolizer = Symbolizer::builder().build();
    let options = Options {
        by_thread: true,
        ..Options::default()
    };
    let profile = analyse(&data, &symbolizer, &options);
    assert_eq!(profile.events[0].name, HOSTILE);
    assert!(profile.comms.iter().any(|comm| comm.contains('\x1b')));
    assert!(
        profile
            .objects
            .iter()
            .any(|object| object.name.contains('\x1b'))
    );
    assert_eq!(profile.events[0].samples, 1);
    profile
}

#[track_caller]
fn assert_inert(name: &str, lines: usize, write: impl FnOnce(&mut dyn Write)) {
    let mut out = Vec::new();
    write(&mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("evil"), "{name}: {text}");
    let is_bad = |c: &char| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c);
    assert_eq!(text.chars().find(is_bad), None, "{name}: {text:?}");
    if lines > 0 {
        assert_eq!(text.lines().count(), lines, "{name}: {text}");
    }
}

#[test]
fn no_form_of_output_obeys_them() {
    let mut profile = profile();
    profile.request_key = Some(HOSTILE.to_owned());
    let options = ReportOptions {
        rows: RowOptions {
            keys: Keys {
                comm: true,
                object: true,
                ..Keys::FUNCTIONS
            },
            ..RowOptions::default()
        },
        ..ReportOptions::default()
    };
    // Compressed or binary.
    let packed = ["pprof", "otlp", "firefox", "perfetto"];
    for format in FORMATS
        .iter()
        .filter(|format| !packed.contains(&format.name))
    {
        // No further lines in line-based formats.
        let lines = match format.name {
            "csv" => 2,
            "folded" => 1,
            _ => 0,
        };
        assert_inert(format.name, lines, |out| {
            (format.write)(&profile, &options, out).unwrap();
        });
    }
    // Other bytes are arbitrary.
    for name in packed {
        let format = FORMATS.iter().find(|format| format.name == name).unwrap();
        let mut file = Vec::new();
        (format.write)(&profile, &options, &mut file).unwrap();
        let mut bytes = Vec::new();
        let read =
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&file[..]), &mut bytes);
        if read.is_err() {
            bytes = file;
        }
        let has = |text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        // Only the main event.
        assert!(has("evil"), "{name}");
        for bad in [
            "\x1b[", "\u{202e}", "\nevil", "evil\n", "\\u001b", "\\nevil",
        ] {
            assert!(!has(bad), "{bad:?} in {name}");
        }
    }
    assert_inert("SVG with a title", 0, |out| {
        let options = SvgOptions {
            title: HOSTILE.into(),
            ..SvgOptions::default()
        };
        svg::write(&profile, 0, &options, out).unwrap();
    });
    for finding in verdict::findings(&profile) {
        let line = finding.to_string();
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}
