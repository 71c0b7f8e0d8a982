//! Formats that rprof recognizes and does not read, with the command that gives a readable file.

/// Unsupported formats, by their first bytes. Blanks before texts do not matter.
const REFUSED: &[(&[u8], &str)] = &[
    (
        b"\xfd7zXZ\0",
        "is compressed with xz; unpack it first (xz -d)",
    ),
    (
        b"BZh",
        "is compressed with bzip2; unpack it first (bzip2 -d)",
    ),
    (
        b"\x04\x22\x4d\x18",
        "is compressed with lz4; unpack it first (lz4 -d)",
    ),
    (b"PK\x03\x04", "is a ZIP archive; unpack it first"),
    (
        b"heap profile:",
        "is a heap profile of gperftools; convert it first with `go tool pprof -proto`",
    ),
    (
        b"--- heapz 1 ---",
        "is a heap profile of gperftools; convert it first with `go tool pprof -proto`",
    ),
    (b"goroutine profile:", READABLE),
    (
        b"FLR\0",
        "is a Java Flight Recorder recording; convert it first with async-profiler's jfrconv \
         (jfrconv -o collapsed FILE OUT)",
    ),
    (
        b"\x17\x08\x44tracing",
        "is a trace of trace-cmd, an unsupported format; `rprof record -e EVENT` records tracepoints",
    ),
    (
        b"\x5e\x97\xca\xfd",
        "is a capture of Sysprof, an unsupported format; `rprof record` records the same",
    ),
    (
        b"\x10\0\x04\x46\x78\x54\x16\0",
        "is a trace in Fuchsia's format, as of magic-trace, an unsupported format; perf script \
         --itrace=i1us prints the recording of the trace",
    ),
    (b"tlZ\x04", TRACY),
    (b"tr\xfdP", TRACY),
    (b"tZst", TRACY),
    (
        b"rbspy0",
        "is a recording of rbspy; fold it first (rbspy report -f collapsed -i FILE -o OUT)",
    ),
    (
        b"\x04\x08",
        "is data of Ruby, as of stackprof; fold it first (stackprof --stackcollapse FILE)",
    ),
    (
        b"SIMPLEPERF\x01\0",
        "is a report of simpleperf; give rprof its recording, perf.data",
    ),
    (
        b"NYTProf ",
        "is a profile of Perl's NYTProf; fold it first (nytprofcalls FILE)",
    ),
    (
        b"PAR1\x15",
        "is a Parquet table, which `rprof-fleet` queries; other commands read recordings and profiles",
    ),
    (
        b"SQLite format 3\0",
        "is an SQLite database, not a profile; export a profile from the program that wrote it",
    ),
    // Innermost of too many layers.
    (
        b"\x1f\x8b",
        "is compressed more than three times; unpack it first (gzip -d)",
    ),
    (
        b"# callgrind format",
        "is a profile of callgrind, an unsupported format; callgrind_annotate reads it",
    ),
    (
        b"version: 1\ncreator:",
        "is a profile of callgrind or Xdebug, an unsupported format; KCachegrind reads it",
    ),
    (b"desc: I1 cache:", VALGRIND),
    (b"desc: (none)\ncmd:", VALGRIND),
    (b"desc: --", VALGRIND),
    (
        b"Nettrace",
        "is a trace of .NET; convert it first (dotnet-trace convert --format Speedscope)",
    ),
    (b"memray\0", MEMRAY),
    (
        b"allocator,num_allocations,size,",
        "is a table of memray; convert the recording instead (memray transform speedscope FILE)",
    ),
    (
        b"JAVA PROFILE ",
        "is a heap dump of Java, which has objects but no stacks; `rprof record --memory` records \
         memory by stack",
    ),
    (
        b"gmon\x01",
        "is a profile of gprof, which has no stacks; `rprof record` the program",
    ),
    (b"threadcreate profile:", READABLE),
    (b"--- mutex:", READABLE),
    (b"--- contention:", READABLE),
    (b"PeriodType: ", PPROF_TEXT),
    (
        b"--- Execution profile ---",
        "is text of async-profiler; write folded stacks instead (-o collapsed)",
    ),
    (
        b"# tracer: ",
        "is text of ftrace, which has no samples; `rprof record -e EVENT` records tracepoints",
    ),
    (
        b"v8-version,",
        "is a log of V8's --prof; `node --cpu-prof` writes a readable profile",
    ),
    (
        b"Statistical profiling result from ",
        "is text of node --prof-process, which has no stacks; `node --cpu-prof` writes a readable \
         profile",
    ),
    (
        b"Performance counter stats for",
        "has counts of perf stat, which have no stacks; `rprof record` the program",
    ),
    (
        b"% time     seconds  usecs/call",
        "has counts of strace or ltrace, which have no stacks; `rprof record` the program",
    ),
    (
        b"Percent |",
        "is text of perf annotate, which has no samples; give rprof the perf.data file",
    ),
    (
        b"Call graph (explanation follows)",
        "is a report of gprof, which has no stacks; `rprof record` the program",
    ),
    (
        b"startup\ttime=",
        "is a causal profile of coz, which has no stacks; coz plot shows it",
    ),
    (
        b"\x7fELF",
        "is a program or library, not a recording; `rprof record -- COMMAND` records a program",
    ),
    (
        b"Sampling at ",
        "is output of bcc's profile; run it with -f to get folded stacks",
    ),
    (
        b"Analysis of sampling ",
        "is output of macOS's sample; fold it first with stackcollapse-sample.awk of FlameGraph",
    ),
    (
        b"Flat profile:",
        "is a report of gprof, which has no stacks; `rprof record` the program",
    ),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"# To display the perf.data header info", PERF_REPORT),
    (b"# Overhead ", PERF_REPORT),
];

/// Unsupported texts, by their first bytes and a later word. Blanks before texts do not matter.
const REFUSED_TEXTS: &[(&[u8], &[u8], &str)] = &[
    (
        b"Attaching to pid",
        b"Ctrl",
        "is output of bcc's memleak, an unsupported format; `rprof record --alloc` records \
         allocations",
    ),
    (b"Attaching ", b" probe", BPFTRACE),
    (b"Attached ", b" probe", BPFTRACE),
    (
        b"Tracing ",
        b"Hit Ctrl-C",
        "is output of bcc; run its program with -f to get folded stacks",
    ),
    (
        b"Process ",
        b"\nPython v",
        "is a dump of py-spy, one moment of a program; py-spy record -f raw writes folded stacks",
    ),
    (b"", b"\nFull thread dump ", THREAD_DUMP),
    (b"Full thread dump ", b"", THREAD_DUMP),
    (b"goroutine ", b"]:\n", READABLE),
    (
        b"",
        b"Time and Allocation Profiling Report",
        "is a profile of GHC; fold it first (ghc-prof-flamegraph)",
    ),
    (b"File: ", b"\nType: ", PPROF_TEXT),
    (b"Type: ", b"Showing nodes accounting for", PPROF_TEXT),
    (b"Type: ", b"-----------+----", PPROF_TEXT),
    (b"Total: ", b" samples\n", PPROF_TEXT),
    (
        b"reading file ",
        b"please wait, this might take some time",
        HEAPTRACK,
    ),
    (b"", b" primitive calls) in ", CPROFILE),
    (b"", b" function calls in ", CPROFILE),
    (b"_     ._   __/__", b"Recorded:", PYINSTRUMENT),
    (b"# Samples: ", b" of event ", PERF_REPORT),
    (
        b"CPU: ",
        b"\nCounted ",
        "is a report of OProfile, which has no stacks; `rprof record` the program",
    ),
    (b"Function Stack", b"CPU Time", VTUNE),
    (b"Function", b"CPU Time", VTUNE),
    (b"Weight\t", b"Symbol Name", INSTRUMENTS),
    (b"Running Time", b"Symbol Name", INSTRUMENTS),
    (
        b"<?xml",
        b"<trace-query-result",
        "is XML of Instruments (xctrace export); fold it first (inferno-collapse-xctrace)",
    ),
    (b"<?xml", b"<svg", PICTURE),
    (b"<svg ", b"", PICTURE),
    (b"<!DOCTYPE html", b"", WEB_PAGE),
    (b"<!doctype html", b"", WEB_PAGE),
    (b"<html", b"", WEB_PAGE),
];

/// Number of bytes in which the later word of [`REFUSED_TEXTS`] must begin.
const TEXT_START: usize = 1 << 10;

/// Unsupported documents in JSON, by a key near their start.
const REFUSED_JSON: &[(&[u8], &str)] = &[
    (
        b"\"linux-perf-json-version\":",
        "is a conversion of perf to JSON, which lacks weights; give rprof the perf.data file",
    ),
    (
        b"{\"type\":\"attached_probes\",",
        "is JSON of bpftrace; fold its text (without -f json) with stackcollapse-bpftrace.pl of \
         FlameGraph",
    ),
    (
        b"\"dhatFileVersion\":",
        "is a profile of DHAT, an unsupported format; dh_view.html of valgrind shows it. `rprof \
         record --alloc` samples allocations",
    ),
    (
        b"\"snapshot\":{\"meta\":",
        "is a heap snapshot of V8, which has objects but no stacks; Chrome's developer tools show \
         it. `rprof record --memory` records memory by stack",
    ),
    (
        b"\"cat\":\"py-spy\"",
        "is a Chrome trace of py-spy; py-spy record -f speedscope writes a readable profile",
    ),
    (
        b"\"costs\":[{\"description\":",
        "is a profile for gprof2dot; if memray wrote it, convert the recording instead (memray \
         transform speedscope FILE)",
    ),
    (
        b"\"total_num_allocations\":",
        "has totals of memray; convert the recording instead (memray transform speedscope FILE)",
    ),
    (b"\"root_frame\":", PYINSTRUMENT),
    (
        b"{\"results\":[{\"command\":",
        "has times of hyperfine, which have no stacks; `rprof record` the command",
    ),
    (
        b"{\"code\":[{\"name\":",
        "is a log of V8's --prof; `node --cpu-prof` writes a readable profile",
    ),
    (
        b"\"resourceProfiles\":",
        "is a profile of OpenTelemetry in JSON, an unsupported format; export pprof's format \
         instead",
    ),
    (
        b"\"counter-value\":",
        "has counts of perf stat, which have no stacks; `rprof record` the program",
    ),
    (
        b"\"raw_timestamp_deltas\":",
        "is a profile of stackprof; fold it first (stackprof --stackcollapse)",
    ),
];

pub(super) const UTF_16: &str = "is text in UTF-16; convert it first (iconv -f UTF-16 -t UTF-8)";

const PERF_REPORT: &str = "is a report of perf, which has no samples; give rprof the perf.data file, or output of perf \
     script";

const BPFTRACE: &str =
    "is output of bpftrace; fold it first with stackcollapse-bpftrace.pl of FlameGraph";

const PPROF_TEXT: &str = "is text of pprof; write pprof's format instead (go tool pprof -proto)";

const THREAD_DUMP: &str = "is a thread dump of Java, one moment of a program; `rprof record -p PID` \
                           records its threads";

const CPROFILE: &str = "is a profile of Python's cProfile, which has no stacks; `rprof record -- \
                        python3 PROGRAM` records it with functions";

const PYINSTRUMENT: &str = "is a session of pyinstrument; write speedscope's format instead \
                            (pyinstrument -r speedscope)";

const VTUNE: &str = "is a report of VTune; fold it first with inferno-collapse-vtune";

const INSTRUMENTS: &str =
    "is text of Instruments; fold it first with stackcollapse-instruments.pl of FlameGraph";

const AUSTIN: &str = "is in austin's binary format; convert it first (mojo2austin FILE OUT)";

const MEMRAY: &str =
    "is a recording of memray; convert it first (memray transform speedscope FILE)";

const PICTURE: &str =
    "is a picture, as of a flame graph; give rprof the recording or folded stacks that it shows";

const WEB_PAGE: &str = "is a web page; give rprof the recording or profile that the page shows";

const TRACY: &str =
    "is a trace of Tracy, an unsupported format; `rprof record` samples the program";

const DTRACE: &str = "is output of DTrace; fold it first with stackcollapse.pl of FlameGraph";

const VALGRIND: &str =
    "is output of valgrind's cachegrind or massif; cg_annotate or ms_print reads it";

const GO_TRACE: &str =
    "is an execution trace of Go; extract a profile first (go tool trace -pprof=sched)";

const HEAPTRACK: &str = "is a recording of heaptrack; fold it first (heaptrack_print \
                         --print-flamegraph OUT), or use `rprof record --alloc`";

const TAR: &str = "is a tar archive; unpack it first (tar xf)";

const READABLE: &str =
    "is a readable profile of Go; fetch it without `debug=1` to get pprof's format";

/// Returns why a format is unsupported, with a remedy. `text` is the input without blanks at its
/// start.
pub(super) fn refused(start: &[u8], text: &[u8]) -> Option<&'static str> {
    if is_memray(start) {
        return Some(MEMRAY);
    }
    let mut by_start = REFUSED.iter();
    // A newline begins the first field of pprof's format.
    let is_text = |magic: &[u8]| magic.first().is_some_and(u8::is_ascii_graphic);
    if let Some((_, why)) = by_start
        .find(|(magic, _)| start.starts_with(magic) || is_text(magic) && text.starts_with(magic))
    {
        return Some(why);
    }
    let head = &text[..text.len().min(TEXT_START)];
    let has = |word: &[u8]| memchr::memmem::find(head, word).is_some();
    let mut by_word = REFUSED_TEXTS.iter();
    if let Some((.., why)) = by_word.find(|(first, word, _)| text.starts_with(first) && has(word)) {
        return Some(why);
    }
    if is_go_trace(start) {
        return Some(GO_TRACE);
    }
    if is_heaptrack(start) {
        return Some(HEAPTRACK);
    }
    if is_pstats(start) {
        return Some(CPROFILE);
    }
    if is_map_of_bpftrace(text) {
        return Some(BPFTRACE);
    }
    is_austin(start).then_some(AUSTIN)
}

/// Returns why a JSON document is unsupported. `head` is its start without blanks.
pub(super) fn refused_json(head: &[u8]) -> Option<&'static str> {
    let mut refused = REFUSED_JSON.iter();
    let found = refused.find(|(key, _)| memchr::memmem::find(head, key).is_some());
    found.map(|(_, why)| *why)
}

/// Returns why an archive is unsupported. The magic number of tar(5) stands in the header of the
/// first file.
pub(super) fn refused_archive(start: &[u8]) -> Option<&'static str> {
    (start.get(257..262) == Some(b"ustar")).then_some(TAR)
}

/// Returns why stacks of DTrace are unsupported; `None` for other lines. They have a frame such as
/// ``libc.so.1`read+0x7`` in each line, and the number of samples below.
pub(super) fn refused_stacks<'t>(lines: impl Iterator<Item = &'t str>) -> Option<&'static str> {
    let (mut frames, mut counts, mut others) = (0, 0, 0);
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let is_frame = line.contains('`') && !line.contains(' ');
        let is_count = line.bytes().all(|byte| byte.is_ascii_digit());
        frames += usize::from(is_frame);
        counts += usize::from(is_count);
        others += usize::from(!is_frame && !is_count);
    }
    (counts > 0 && frames >= counts && frames > others).then_some(DTRACE)
}

/// Returns true for a recording of memray as it is by default, compressed with lz4. Its first bytes
/// are no repetition, so they stand in the file as they are.
fn is_memray(start: &[u8]) -> bool {
    let header = start.get(..32).unwrap_or(start);
    header.starts_with(b"\x04\x22\x4d\x18") && memchr::memmem::find(header, b"memray\0").is_some()
}

/// Returns true for a map that bpftrace printed: `@`, its name, and a key or value.
fn is_map_of_bpftrace(text: &[u8]) -> bool {
    let Some(name) = text.strip_prefix(b"@") else {
        return false;
    };
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let len = name.iter().take_while(is_part).count();
    matches!(name.get(len..), Some([b'[', ..] | [b':', b' ' | b'\n', ..]))
}

/// Returns true for austin's magic number, with a version.
fn is_austin(start: &[u8]) -> bool {
    start.starts_with(b"MOJ") && start.get(3).is_some_and(u8::is_ascii_control)
}

/// Returns true for Python's marshalled dictionary of cProfile (`pstats`). Its first key is a tuple
/// with the name of a file.
fn is_pstats(start: &[u8]) -> bool {
    // The high bit marks values that are referred to again.
    let types: Vec<u8> = start.iter().take(2).map(|byte| byte & 0x7f).collect();
    types == *b"{)" && start.get(2) == Some(&3)
}

/// Returns true for the header of Go's execution traces: `go 1.22 trace`, padded with zeros to 16
/// bytes.
fn is_go_trace(start: &[u8]) -> bool {
    let header = start.first_chunk::<16>();
    header.is_some_and(|header| {
        header.starts_with(b"go 1.") && memchr::memmem::find(header, b" trace\0").is_some()
    })
}

/// Returns true for the first two lines of heaptrack's files: versions, and the command.
fn is_heaptrack(start: &[u8]) -> bool {
    let mut lines = start.split(|byte| *byte == b'\n');
    let (version, command) = (lines.next(), lines.next());
    let is_version = |line: &[u8]| line.starts_with(b"v 1") && line.len() < 16;
    version.is_some_and(is_version) && command.is_some_and(|line| line.starts_with(b"X "))
}

#[cfg(test)]
mod tests {
    use crate::{Detected, detect};

    #[test]
    fn reports_of_other_tools_are_refused_with_what_writes_a_readable_file() {
        for (text, remedy) in [
            (&b"v8-version,10,2,154\n"[..], "--cpu-prof"),
            (b"FLR\0\0\x02", "jfrconv"),
            (
                b"\n Performance counter stats for 'x':\n\n  1 cycles\n",
                "perf stat",
            ),
            (
                b"% time     seconds  usecs/call     calls\n 5.0 0.1 3 7\n",
                "strace",
            ),
            (
                b"Attaching to pid 12, Ctrl+C to quit.\n",
                "bcc's memleak",
            ),
            (b"Attached 1 probe\n", "stackcollapse-bpftrace"),
            (b"@usecs: \n[1, 2)   5 |@@@|\n", "stackcollapse-bpftrace"),
            (b"# Samples: 1K of event 'cycles'\n#\n", "perf.data file"),
            (
                b"CPU: Intel, speed 3500 MHz (estimated)\nCounted CPU_CLK_UNHALTED events\n",
                "OProfile",
            ),
            (
                b"@samples[\n    f+12\n    main+3\n]: 12\n",
                "stackcollapse-bpftrace",
            ),
            (
                b"Tracing off-CPU time (us) of all threads by user stack... Hit Ctrl-C to end.\n",
                "-f",
            ),
            (
                b"Process 7: python3 work.py\nPython v3.11.2 (/usr/bin/python3)\n",
                "py-spy record",
            ),
            (
                b"2026-11-30 04:00:00\nFull thread dump OpenJDK 64-Bit Server VM\n",
                "rprof record -p",
            ),
            (b"goroutine 1 [running]:\nmain.main()\n", "debug=1"),
            (
                b"File: app\nType: cpu\nTime: now\nShowing nodes\n",
                "-proto",
            ),
            (
                b"reading file \"heaptrack.x.gz\" - please wait, this might take some time...\n",
                "heaptrack_print",
            ),
            (
                b"\xfb)\x03\xfa\x01~\xe9\0\0\0\0",
                "rprof record -- python3",
            ),
            (
                b"         5 function calls in 0.000 seconds\n",
                "cProfile",
            ),
            (
                b"Mon Nov 30 2026    a.pstats\n\n  7 function calls (5 primitive calls) in 0.1 seconds\n",
                "cProfile",
            ),
            (b"Function Stack,CPU Time,Module\nf,1.0,a\n", "vtune"),
            (
                b"Weight\tSelf Weight\t\tSymbol Name\n1 ms\t",
                "stackcollapse-instruments",
            ),
            (
                b"<?xml version=\"1.0\"?>\n<trace-query-result>\n",
                "xctrace",
            ),
            (
                b"<?xml version=\"1.0\"?><!DOCTYPE svg>\n<svg>",
                "picture",
            ),
            (b"<!DOCTYPE html>\n<html>", "web page"),
            (
                b"{\n  \"results\": [\n    {\n \"command\": \"x\",",
                "hyperfine",
            ),
            (
                b"{\"code\":[{\"name\":\"f\",\"type\":\"JS\"}]}",
                "--cpu-prof",
            ),
            (b"MOJ\x03", "mojo2austin"),
            (b"rbspy02\n", "rbspy report"),
            (
                b"\x04\x22\x4d\x18\x40\x40\xc0\x22\0\0\0\xf5\x1fmemray\0\x0c\0",
                "memray transform",
            ),
            (b"allocator,num_allocations,size,tid\n", "memray transform"),
            (
                b"[{\"args\":{\"line\":13},\"cat\":\"py-spy\",\"ph\":\"B\"",
                "py-spy record -f speedscope",
            ),
            (
                b"{\n  \"total_num_allocations\": 20180,",
                "memray transform",
            ),
            (
                b"{\"version\": 0, \"costs\": [{\"description\": \"Memory\"",
                "gprof2dot",
            ),
            (
                b"\n              libc.so.1`read+0x7\n              app`main+0x11\n               12\n",
                "stackcollapse.pl",
            ),
        ] {
            let Some(Detected::Refused(why)) = detect(text, true) else {
                panic!("{}", String::from_utf8_lossy(text));
            };
            assert!(why.contains(remedy), "{why}");
        }
    }
}
