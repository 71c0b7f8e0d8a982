//! Table of all output formats of a profile.
//!
//! To add a format, write a file with a `write` function of this type, and add an entry to
//! [`FORMATS`]. The command line, the tests and the fuzz target `analyse` use this table.

use std::io::{self, Write};

use rprof_profile::{FrameAddress, Object, ObjectKind, Profile, is_kernel_address};

use crate::options::ReportOptions;
use crate::svg::{SvgError, SvgOptions};
use crate::{
    cpuprofile, csv, firefox, folded, json, markdown, otlp, perfetto, pprof, speedscope, svg, table,
};

/// Output format of a profile.
#[derive(Clone, Copy, Debug)]
pub struct ExportFormat {
    /// Name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// File name suffixes that select the format. The longest one decides.
    pub suffixes: &'static [&'static str],
    /// Part of the profile that the format shows.
    pub content: Content,
    /// True if the output includes the warnings of the profile, for people.
    pub shows_warnings: bool,
    /// Frames whose addresses the output contains.
    pub addresses: WrittenAddresses,
    /// Writes a profile. Formats with more options have another function in their module.
    pub write: fn(&Profile, &ReportOptions, &mut dyn Write) -> io::Result<()>,
}

/// Part of a profile that a format shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Top functions of every event, one row each: a report.
    Functions,
    /// All stacks of the main event.
    Stacks,
    /// All stacks of all events, with addresses, lines and inlined calls.
    Addresses,
    /// All samples of the main event by thread and time, with lines and inlined calls.
    Samples,
    /// The same, and the waits beside them.
    SamplesAndWaits,
}

/// Frames whose addresses a format writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WrittenAddresses {
    /// No frames: the format has names only.
    None,
    /// Frames in files. The address is a file offset.
    OfFiles,
    /// All frames. A kernel address is a memory address.
    All,
}

/// All formats: the reports, with the default first, then the others.
pub const FORMATS: &[ExportFormat] = &[
    ExportFormat {
        name: "text",
        help: "A table",
        suffixes: &[],
        content: Content::Functions,
        shows_warnings: true,
        addresses: WrittenAddresses::None,
        write: table::write,
    },
    ExportFormat {
        name: "json",
        help: "JSON, in a stable form",
        suffixes: &[],
        content: Content::Functions,
        shows_warnings: false,
        addresses: WrittenAddresses::None,
        write: json::write,
    },
    ExportFormat {
        name: "csv",
        help: "CSV with headings",
        suffixes: &[],
        content: Content::Functions,
        shows_warnings: false,
        addresses: WrittenAddresses::None,
        write: csv::write,
    },
    ExportFormat {
        name: "markdown",
        help: "Markdown, for a comment or a page: the first 20 rows, unless -n says otherwise",
        suffixes: &[],
        content: Content::Functions,
        shows_warnings: true,
        addresses: WrittenAddresses::None,
        write: markdown::write,
    },
    ExportFormat {
        name: "folded",
        help: "Folded stacks, a line for each",
        suffixes: &[".folded"],
        content: Content::Stacks,
        shows_warnings: false,
        addresses: WrittenAddresses::None,
        write: |profile, options, out| match profile.main_event() {
            Some(event) => folded::write(profile, event, options.rows.weight, out),
            None => Ok(()),
        },
    },
    ExportFormat {
        name: "svg",
        help: "A flame graph",
        suffixes: &[".svg"],
        content: Content::Stacks,
        shows_warnings: false,
        addresses: WrittenAddresses::None,
        write: |profile, options, out| {
            let event = profile.main_event().ok_or(SvgError::NoSamples);
            let svg = SvgOptions {
                weight: options.rows.weight,
                ..SvgOptions::default()
            };
            event
                .and_then(|event| svg::write(profile, event, &svg, out).map(drop))
                .map_err(|error| match error {
                    SvgError::Write(error) => error,
                    error => io::Error::other(error),
                })
        },
    },
    ExportFormat {
        name: "pprof",
        help: "pprof's profile.proto with gzip, for `go tool pprof`, Pyroscope, Parca",
        suffixes: &[".pb.gz", ".pprof"],
        content: Content::Addresses,
        shows_warnings: false,
        addresses: WrittenAddresses::All,
        write: pprof::write,
    },
    ExportFormat {
        name: "otlp",
        help: "OpenTelemetry profiles with gzip, proto 1.10: experimental",
        suffixes: &[".otlp.pb.gz"],
        content: Content::Addresses,
        shows_warnings: false,
        addresses: WrittenAddresses::All,
        write: otlp::write,
    },
    ExportFormat {
        name: "firefox",
        help: "The Firefox Profiler's JSON with gzip: each thread in order of time",
        suffixes: &[".firefox.json.gz", ".json.gz"],
        content: Content::Samples,
        shows_warnings: false,
        addresses: WrittenAddresses::OfFiles,
        write: firefox::write,
    },
    ExportFormat {
        name: "speedscope",
        help: "speedscope's JSON: each thread in order of time",
        suffixes: &[".speedscope.json"],
        content: Content::Samples,
        shows_warnings: false,
        addresses: WrittenAddresses::None,
        write: speedscope::write,
    },
    ExportFormat {
        name: "cpuprofile",
        help: "V8's CPU profile, for Chrome's developer tools and VS Code: all threads, one after the other",
        suffixes: &[".cpuprofile"],
        content: Content::Samples,
        shows_warnings: false,
        addresses: WrittenAddresses::None,
        write: cpuprofile::write,
    },
    ExportFormat {
        name: "perfetto",
        help: "Perfetto's trace: samples and waits of all threads on one time line",
        suffixes: &[".pftrace", ".perfetto-trace"],
        content: Content::SamplesAndWaits,
        shows_warnings: false,
        addresses: WrittenAddresses::None,
        write: perfetto::write,
    },
];

impl Content {
    /// Returns true if the format shows single samples, by thread and time.
    pub fn is_by_time(self) -> bool {
        matches!(self, Content::Samples | Content::SamplesAndWaits)
    }
}

impl ExportFormat {
    /// Finds a format by its name.
    pub fn by_name(name: &str) -> Option<&'static ExportFormat> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Finds a format by the suffix of a file name.
    pub fn by_suffix(file_name: &str) -> Option<&'static ExportFormat> {
        let matching = FORMATS.iter().flat_map(|format| {
            let suffixes = format.suffixes.iter();
            let suffixes = suffixes.filter(|suffix| file_name.ends_with(**suffix));
            suffixes.map(move |suffix| (suffix.len(), format))
        });
        matching
            .max_by_key(|(len, _)| *len)
            .map(|(_, format)| format)
    }

    /// Iterates over the formats with this content, the default first.
    pub fn of(content: Content) -> impl Iterator<Item = &'static ExportFormat> {
        (FORMATS.iter()).filter(move |format| format.content == content)
    }

    /// Returns true if the output contains kernel memory addresses. They reveal the load address,
    /// which the kernel hides from unprivileged users (`kernel.kptr_restrict`).
    pub fn writes_kernel_addresses(&self, profile: &Profile) -> bool {
        let is_written = |object: &Object| match self.addresses {
            WrittenAddresses::None => false,
            WrittenAddresses::OfFiles => object.kind == ObjectKind::File,
            WrittenAddresses::All => true,
        };
        let mut frames = profile
            .aggregated
            .iter()
            .flat_map(|entry| profile.frames(entry.stack));
        self.addresses != WrittenAddresses::None
            && profile.has_addresses()
            && frames.any(|id| {
                let frame = profile.frame(id);
                let object = profile.object(profile.function(frame.function).object);
                let is_kernel = |address: FrameAddress| {
                    object.kind == ObjectKind::Kernel || is_kernel_address(address.address())
                };
                is_written(object) && frame.address.is_some_and(is_kernel)
            })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rprof_profile::{Frame, ProfileBuilder, ProfileSample, WeightUnit};

    use super::*;

    #[test]
    fn longest_suffix_of_a_file_name_selects_the_format() {
        let name_of = |file| ExportFormat::by_suffix(file).map(|format| format.name);
        assert_eq!(name_of("a.pb.gz"), Some("pprof"));
        assert_eq!(name_of("a.otlp.pb.gz"), Some("otlp"));
        assert_eq!(name_of("a.txt"), None);
    }

    const ADDRESS: u64 = 0xffff_ffff_8123_4567;

    fn profile(kind: ObjectKind) -> Profile {
        let mut builder = ProfileBuilder::with_addresses().streams(true);
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let program = builder.intern_object("/bin/x");
        let object = builder.add_object(Object {
            name: "[code]".into(),
            kind,
            build_id: None,
            runtime: None,
        });
        let functions = [("main", program), ("work", object)]
            .map(|(name, object)| builder.intern_function(Ok(name), object));
        let addresses = [0x1010, ADDRESS].map(FrameAddress::InstructionPointer);
        let frames = [0, 1].map(|nth| {
            builder.intern_frame(Frame {
                address: Some(addresses[nth]),
                ..Frame::of(functions[nth])
            })
        });
        let stack = builder.intern_stack(&frames);
        let thread = builder.intern_thread_name("x");
        for time in [1, 2] {
            builder.add_sample(ProfileSample {
                time,
                cpu: None,
                thread,
                stack,
                event,
                weight: 1000,
            });
        }
        builder.finish()
    }

    /// Returns true if the bytes contain the address as text or protobuf.
    fn holds_address(bytes: &[u8]) -> bool {
        let mut unpacked = Vec::new();
        let bytes = match bytes.starts_with(&[0x1f, 0x8b]) {
            true => {
                let mut reader = flate2::read::MultiGzDecoder::new(bytes);
                reader.read_to_end(&mut unpacked).expect("it is gzip");
                &unpacked
            }
            false => bytes,
        };
        let mut varint = Vec::new();
        let mut rest = ADDRESS;
        while rest > 0x7f {
            varint.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        varint.push(rest as u8);
        let texts = [
            format!("{ADDRESS}"),
            format!("{ADDRESS:x}"),
            format!("{ADDRESS:X}"),
        ];
        let texts = texts.map(String::into_bytes);
        let forms = texts.iter().chain([&varint]);
        forms.into_iter().any(|form| {
            let mut windows = bytes.windows(form.len());
            windows.any(|window| window == &form[..])
        })
    }

    #[test]
    fn forms_that_hold_addresses_of_the_kernel_say_so() {
        let mut held = Vec::new();
        for kind in [ObjectKind::Kernel, ObjectKind::File] {
            let profile = profile(kind);
            for format in FORMATS {
                let mut bytes = Vec::new();
                (format.write)(&profile, &ReportOptions::default(), &mut bytes)
                    .expect("memory takes it");
                if holds_address(&bytes) {
                    held.push((format.name, kind));
                    assert!(format.writes_kernel_addresses(&profile), "{}", format.name);
                }
            }
        }
        assert_eq!(
            held,
            [
                ("pprof", ObjectKind::Kernel),
                ("otlp", ObjectKind::Kernel),
                ("pprof", ObjectKind::File),
                ("otlp", ObjectKind::File),
                ("firefox", ObjectKind::File)
            ]
        );
    }

    #[test]
    fn forms_of_names_alone_and_profiles_of_users_alone_hold_none() {
        let kernel = profile(ObjectKind::Kernel);
        let says: Vec<&str> = (FORMATS.iter())
            .filter(|format| format.writes_kernel_addresses(&kernel))
            .map(|format| format.name)
            .collect();
        assert_eq!(says, ["pprof", "otlp"]);
        let mut builder = ProfileBuilder::with_addresses();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("/bin/x");
        let main = builder.intern_function(Ok("main"), object);
        let frame = builder.intern_frame(Frame {
            address: Some(FrameAddress::InstructionPointer(0x1010)),
            ..Frame::of(main)
        });
        let stack = builder.intern_stack(&[frame]);
        let thread = builder.intern_thread_name("x");
        builder.add_samples(event, thread, stack, 1, 1);
        let user = builder.finish();
        assert!(
            FORMATS
                .iter()
                .all(|format| !format.writes_kernel_addresses(&user))
        );
    }
}
