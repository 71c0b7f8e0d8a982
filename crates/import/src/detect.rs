//! Format detection, by properties that do not depend on the writer's field order.

mod refused;

use rprof_profile::folded::is_stack;

use crate::perf_script::{Evidence, evidence, is_padded_thread};
use crate::{Format, gperftools, pprof};

/// Format of an input, detected from its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detected {
    /// A profile in this format.
    Profile(Format),
    /// A known format that is unsupported, with the reason and a remedy.
    Refused(&'static str),
    /// A recording, or an unknown format.
    Other,
}

/// Number of bytes that suffice to detect text, unless all of them are comments.
const ENOUGH: usize = 8 << 10;

/// Maximum number of bytes to inspect. Text may begin with long comments.
pub(crate) const MAX_START: usize = 1 << 20;

const RAW_DUMP: &str =
    "is a dump of perf's records (-D), which has no names; print samples with perf script alone";

const FRAMES_ONLY: &str = "has stacks of perf script without a first line for each sample; print \
                           them with perf script -F comm,tid,time,event,ip,sym,dso";

/// Number of bytes in which the keys of JSON documents are searched.
const JSON_START: usize = 4 << 10;

/// Magic numbers of perf recordings: versions 2 and 1, in both byte orders.
const RECORDINGS: [&[u8]; 4] = [b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP"];

/// Detects the format from the first bytes. Returns `None` if it needs more. `at_end`: there are no
/// more.
pub fn detect(start: &[u8], at_end: bool) -> Option<Detected> {
    let is_all = at_end || start.len() >= MAX_START;
    if start.len() < 16 && !is_all {
        return None;
    }
    let text = without_mark(start).trim_ascii_start();
    if let Some(why) = refused::refused(start, text) {
        return Some(Detected::Refused(why));
    }
    // A recording, even if it is damaged.
    if RECORDINGS.iter().any(|magic| start.starts_with(magic)) {
        return Some(Detected::Other);
    }
    match text.first() {
        Some(b'{') => {
            if start.len() < JSON_START && !is_all {
                return None;
            }
            return Some(json(text));
        }
        Some(b'[') if is_trace(text) => return Some(json(text)),
        _ => {}
    }
    if gperftools::is_cpu_profile(start) {
        return Some(Detected::Profile(Format::Gperftools));
    }
    if start.len() < ENOUGH && !is_all {
        return None;
    }
    if let Some(why) = refused::refused_archive(start) {
        return Some(Detected::Refused(why));
    }
    if pprof::is_pprof(start, at_end) {
        return Some(Detected::Profile(Format::Pprof));
    }
    of_text(start, at_end, is_all)
}

/// Strips UTF-8's byte order mark.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Returns true if a JSON array starts with an object (`[{`) that has a phase, as in a Chrome trace.
fn is_trace(text: &[u8]) -> bool {
    let head = without_blanks(&text[..text.len().min(JSON_START)]);
    head.starts_with(b"[{") && memchr::memmem::find(&head, b"\"ph\":").is_some()
}

/// Returns a document in JSON as read or refused.
fn json(text: &[u8]) -> Detected {
    let head = without_blanks(&text[..text.len().min(JSON_START)]);
    match refused::refused_json(&head) {
        Some(why) => Detected::Refused(why),
        None => Detected::Profile(Format::Json),
    }
}

fn without_blanks(text: &[u8]) -> Vec<u8> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace();
    (text.iter().copied())
        .filter(|byte| !is_blank(byte))
        .collect()
}

/// Distinguishes perf script text from folded stacks. Folded lines end in a number, but so may any
/// text, so most lines must.
fn of_text(start: &[u8], at_end: bool, is_all: bool) -> Option<Detected> {
    // The last line may be cut.
    let end = match at_end {
        true => start.len(),
        false => start
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1),
    };
    let lines = || without_mark(&start[..end]).split(|byte| *byte == b'\n');
    let lossy: Vec<_> = lines().map(String::from_utf8_lossy).collect();
    let texts = || lossy.iter().map(|line| line.trim_end_matches('\r'));
    // Names in folded stacks may have any bytes. perf prints no zero bytes.
    if !start.contains(&0) {
        match evidence(texts()) {
            Evidence::Samples => return Some(Detected::Profile(Format::PerfScript)),
            Evidence::RawDump => return Some(Detected::Refused(RAW_DUMP)),
            Evidence::FramesOnly => return Some(Detected::Refused(FRAMES_ONLY)),
            Evidence::None => {}
        }
    }
    let (mut stacks, mut joined, mut words, mut others) = (0, 0, 0, 0);
    for line in lines() {
        match is_stack(line) {
            Some(true) => {
                stacks += 1;
                let is_joined = line.contains(&b';');
                joined += usize::from(is_joined);
                words += usize::from(!is_joined && is_word(line));
            }
            Some(false) => others += 1,
            None => {}
        }
    }
    if stacks + others == 0 && !is_all {
        // Only comments so far.
        return None;
    }
    let mut written = texts().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if stacks > 0 && written.all(is_padded_thread) {
        let why = "is perf script text without times, events or frames; print them with perf \
                   script -F comm,tid,time,event,ip,sym,dso";
        return Some(Detected::Refused(why));
    }
    if end == 0 && is_all {
        // A line longer than the inspected bytes. Only folded stacks can have such lines.
        let is_text = start.iter().all(|byte| *byte >= b' ' || *byte == b'\t');
        return Some(match is_text && memchr::memchr(b';', start).is_some() {
            true => Detected::Profile(Format::Folded),
            false => Detected::Other,
        });
    }
    // Logs of strace or of web servers have many lines that end in a number, but no stacks.
    let are_stacks = 2 * joined >= stacks || others == 0 && 2 * (joined + words) >= stacks;
    Some(match stacks > 0 && stacks >= others && are_stacks {
        true => Detected::Profile(Format::Folded),
        false if is_utf_16(start) => Detected::Refused(refused::UTF_16),
        false => match refused::refused_stacks(texts()) {
            Some(why) => Detected::Refused(why),
            None => Detected::Other,
        },
    })
}

/// Returns true for one word before the counts, as in a folded stack of one frame.
fn is_word(line: &[u8]) -> bool {
    let is_count = |word: &[u8]| {
        word.iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    };
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    words.next().is_some() && words.all(is_count)
}

/// Returns true for UTF-16 without a byte order mark: ASCII letters with a zero beside each.
fn is_utf_16(start: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let zeros_at = |zero: usize| {
        let pairs = start.chunks_exact(2).take(32);
        pairs.len() >= 4 && (pairs.clone()).all(|pair| pair[zero] == 0 && is_text(&pair[1 - zero]))
    };
    zeros_at(1) || zeros_at(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(start: &[u8]) -> Detected {
        detect(start, true).expect("all of it is there")
    }

    #[test]
    fn archives_are_refused_with_what_unpacks_them() {
        let mut tar = [0; 1024];
        tar[..9].copy_from_slice(b"perf.data");
        tar[257..263].copy_from_slice(b"ustar\0");
        assert!(matches!(of(&tar), Detected::Refused(why) if why.contains("tar xf")));
    }

    #[test]
    fn formats_are_known_by_what_defines_them() {
        for (text, wanted) in [
            (&b"main;work 12\n"[..], Format::Folded),
            // The first field has the bytes of a newline and of Ruby's data.
            (b"\x0a\x04\x08\x01\x10\x02\x32\0\x32\x03cpu\x32\x0bnanoseconds", Format::Pprof),
            (b"main;work\t12\r\n", Format::Folded),
            (b"\xef\xbb\xbfmain;work 12\n", Format::Folded),
            (b"Collapsed by a tool\na;b 0.5\na;c 1\n", Format::Folded),
            (b"main 3", Format::Folded),
            (b"main 3 5\nwork 0.5\nmain;deep 1\nWeb Content 4\n", Format::Folded),
            // Names with words of other formats.
            (b"@loop;[unknown] 3\n", Format::Folded),
            (b"<a::B as c::D>;<svg::E>;f 3\n", Format::Folded),
            (b"Attaching;probe 3\nTracing;Hit Ctrl-C 2\n", Format::Folded),
            (b"MOJ;rbspy;PAR1 2\n", Format::Folded),
            (b"main;nul\0byte 1\nmain;work 2\n", Format::Folded),
            (b"w 17 1.5: cycles: \n\t 10 f (/w)\n", Format::PerfScript),
            // Lines that end in numbers.
            (b"cat 1/1 [000] 5.0: raw_syscalls:sys_exit: NR 0 = 65536\n\t1149 read (/lib/libc.so.6)\n\n", Format::PerfScript),
            (b"w 1 5.0: raw_syscalls:sys_exit: NR 0 = 65536\nw 1 5.1: raw_syscalls:sys_exit: NR 0 = 1\n", Format::PerfScript),
            (b"{\"a\":1}", Format::Json),
            (b"  \n{\"a\":1}", Format::Json),
            (b"[{\"ph\":\"B\"}]", Format::Json),
            (b"{ \"traceEvents\": [{\"name\":\"ProfileChunk\"}]}", Format::Json),
            (b"{\"head\":{\"callFrame\":{}}}", Format::Json),
            // Names of functions.
            (b"{\"stringArray\":[\"traceEvents\",\"\\\"ph\\\":\"]}", Format::Json),
        ] {
            let name = String::from_utf8_lossy(text);
            assert_eq!(of(text), Detected::Profile(wanted), "{name}");
        }
        for other in [
            &b"PERFILE2\0\0\0\0\0\0\0\0"[..],
            b"",
            b"hello\n",
            b"# only\n\n",
            b"Copyright 2026\nAll rights reserved.\nNo part of it\n",
            // A web server, strace, and perf sched timehist.
            b"10.0.0.1 - - [01] \"GET /x HTTP/1.1\" 200 1234\n10.0.0.1 - - [01] \"GET /y\" 200 99\n",
            b"brk(NULL) = 0x55\nclose(3) = 0\nclose(1) = 0\nexit_group(0) = ?\n",
            b"  time cpu  task  run time\n  1.5 [0000]  perf[27]  0.000\n  1.6 [0000]  w[18] 0.024\n",
        ] {
            assert_eq!(of(other), Detected::Other, "{other:?}");
        }
        for (text, wanted) in [
            (
                &b"{\n\t\"linux-perf-json-version\": 1,\n\t\"samples\": [{\"pid\": 1}]}"[..],
                "perf.data file",
            ),
            (b"{\"snapshot\":{\"meta\":{}}}", "--memory"),
            (b"{\"counter-value\" : \"1.0\"}", "perf stat"),
            (b"\xfd7zXZ\0 and so on", "xz -d"),
            (b"heap profile: 1: 2 [ 3: 4] @ heapprofile", "go tool pprof"),
            (
                b"           w    17 \n           w    17 \n",
                "without times",
            ),
            // perf script -D
            (
                b"0x108@p.data [0x50]: event: 69\n.\n. ... raw event: size 80 bytes\n.  0000:  45 00 00\n",
                "dump of perf's records",
            ),
            // perf script -F ip,sym,dso, with and without callchains
            (b"\n\t 113c leaf (/w)\n\t 2000 main (/w)\n\n", "-F comm,tid"),
            (b"   113c leaf (/w)\n   2000 main (/w)\n", "-F comm,tid"),
            (b"# To display the perf.data header info, please\n", "perf script"),
            (b"\x1f\x8b\x08\0\0\0", "three times"),
            (b"Attaching 1 probe...\n\n@[\n", "stackcollapse-bpftrace"),
            // Lines that end in a number.
            (b"\n\n@[cat]: 12\n@[ls]: 3\n", "stackcollapse-bpftrace"),
            (b"v 10400 3\nX ./spin 0.05\nI 1000 5e2922\n", "heaptrack_print"),
            (b"go 1.22 trace\0\0\0", "go tool trace"),
            (b"\x7fELF\x02\x01\x01\0\0", "rprof record"),
            (b"\xff\xfem\0a\0i\0n\0;\0f\0 \x001\0\n\0", "iconv"),
            (b"m\0a\0i\0n\0;\0f\0 \x001\0\n\0", "iconv"),
            (b"\0m\0a\0i\0n\0;\0f\0 \x001\0\n", "iconv"),
        ] {
            let Detected::Refused(why) = of(text) else {
                panic!("{text:?}");
            };
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn comments_of_any_length_are_looked_past() {
        let mut text = "# perf script --header\n".repeat(1 << 10);
        assert_eq!(detect(text.as_bytes(), false), None);
        text += "w 17 1.5: cycles: \n";
        assert_eq!(
            detect(text.as_bytes(), false),
            Some(Detected::Profile(Format::PerfScript))
        );
        let endless = "# more\n".repeat(MAX_START / 7 + 1);
        assert_eq!(detect(endless.as_bytes(), false), Some(Detected::Other));
        let (stack, word) = ("f;".repeat(MAX_START / 2), "f".repeat(MAX_START));
        assert_eq!(
            detect(stack.as_bytes(), false),
            Some(Detected::Profile(Format::Folded))
        );
        assert_eq!(detect(word.as_bytes(), false), Some(Detected::Other));
    }
}
