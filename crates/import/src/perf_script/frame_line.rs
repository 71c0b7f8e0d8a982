//! [`FrameLine`]: a frame as a line of text.

/// Frame: address, function, and the object in brackets.
#[derive(Debug, PartialEq)]
pub(crate) struct FrameLine<'t> {
    pub(super) address: u64,
    /// Empty if missing.
    pub(super) function: &'t str,
    /// Empty if missing.
    pub(super) object: &'t str,
    pub(super) is_inlined: bool,
}

impl<'t> FrameLine<'t> {
    /// Parses `ADDRESS FUNCTION+0xOFFSET (OBJECT)`. All parts but the address are optional.
    pub(super) fn parse(line: &'t str) -> Option<FrameLine<'t>> {
        let line = line.trim();
        let (address, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let address = u64::from_str_radix(address, 16).ok()?;
        // The name of a thread may look like an address.
        if is_time(rest.split_whitespace().next().unwrap_or("")) {
            return None;
        }
        let rest = without_later_fields(rest.trim());
        let (function, object) = split_object(rest);
        let is_inlined = object == "inlined";
        Some(FrameLine {
            address,
            function: without_offset(function),
            object: without_offset(object),
            is_inlined,
        })
    }

    /// Parses the frame at the end of a line with other fields before it, such as a data address
    /// with its symbol. perf pads addresses to 16 characters.
    pub(super) fn at_end(line: &'t str) -> Option<FrameLine<'t>> {
        FrameLine::parse(&line[start_at_end(line)..])
    }

    /// Returns true if a line ends in an address, in perf's column of 16 characters, and a name.
    pub(super) fn is_in_column(line: &str) -> bool {
        let start = start_at_end(line);
        let word = line[start..].split(' ').next().unwrap_or("");
        let padding = start - line[..start].trim_end_matches(' ').len();
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let name = FrameLine::parse(&line[start..]).map_or("", |frame| frame.function);
        let is_name = name.bytes().any(|byte| !byte.is_ascii_digit());
        padding > 0 && padding + word.len() > 16 && word.len() > 3 && has_digit && is_name
    }

    /// Returns true if a line can only be a frame: its object is a path or a name in brackets, or a
    /// tab precedes its address.
    pub(super) fn is_proof(line: &str) -> bool {
        let Some(frame) = FrameLine::parse(line) else {
            return false;
        };
        let word = line.trim().split(char::is_whitespace).next().unwrap_or("");
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let is_name = frame.function.bytes().any(|byte| !byte.is_ascii_digit());
        let is_object = frame.is_inlined || frame.object.starts_with(['/', '[']);
        is_object || line.starts_with('\t') && word.len() >= 3 && has_digit && is_name
    }
}

/// Returns true for a time of a sample: `12.345678:`.
fn is_time(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let time = word.strip_suffix(':');
    time.and_then(|time| time.split_once('.'))
        .is_some_and(|(seconds, fraction)| is_number(seconds) && is_number(fraction))
}

/// Returns the start of the last padded address of a line; 0 without one.
fn start_at_end(line: &str) -> usize {
    let (mut start, mut last) = (0, 0);
    while let Some(at) = line[start..].find(' ').map(|at| start + at) {
        let behind = line[at..].trim_start();
        start = line.len() - behind.len();
        let word = behind.split(' ').next().unwrap_or("");
        if word.is_empty() {
            break;
        }
        let is_hex = word.len() <= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex && (start - at > 1 || word.len() == 16) {
            last = start;
        }
    }
    last
}

/// Strips the offset, `+0x12`.
fn without_offset(name: &str) -> &str {
    match name.rsplit_once("+0x") {
        Some((before, offset)) if !before.is_empty() && u64::from_str_radix(offset, 16).is_ok() => {
            before
        }
        _ => name,
    }
}

/// Returns the end of the object, which is the last one of the first groups in brackets with a path:
/// `f (/srv/app.js:10:5) (/tmp/perf-1.map) 0x1/0x2/P/-/-/0`.
fn end_of_object(text: &str) -> Option<usize> {
    let mut found = None;
    for (at, _) in text.match_indices(") ") {
        let (frame, rest) = text.split_at(at + 1);
        if split_object(frame).1.starts_with(['/', '[']) {
            found = Some(at + 1);
            if !rest.starts_with(" (/") && !rest.starts_with(" ([") {
                break;
            }
        }
    }
    found
}

/// Strips fields that perf prints behind a frame without callers: instructions, targets of
/// branches, registers, branch stacks, physical addresses.
fn without_later_fields(text: &str) -> &str {
    let ends = [" ilen: ", " insn: ", " => ", " ABI:"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    let text = text[..end.unwrap_or(text.len())].trim_end();
    if !text.ends_with(')')
        && let Some(end) = end_of_object(text)
    {
        return &text[..end];
    }
    // A branch of a text without objects: `0x401136/0x401200/P/-/-/0`.
    let mut words = text.match_indices(" 0x");
    let branch = words.find(|(at, _)| {
        let word = text[at + 1..].split(' ').next().unwrap_or("");
        word.matches('/').count() > 3
    });
    text[..branch.map_or(text.len(), |(at, _)| at)].trim_end()
}

/// Splits `FUNCTION (OBJECT)`. Both may contain brackets and spaces: `f(int) const (/tmp/a
/// (deleted))`. Without an object, the last brackets belong to the function.
fn split_object(text: &str) -> (&str, &str) {
    let Some(inside) = text.strip_suffix(')') else {
        return (text, "");
    };
    let is_path = |object: &str| object.starts_with(['/', '[']);
    let mut depth = 1i64;
    // Prefers the last bracket with balanced content that begins like a path, then the last one
    // that begins like a path, then the last one before a single word.
    let (mut whole, mut path, mut word) = (None, None, None);
    for (at, byte) in inside.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => {
                depth -= 1;
                if at > 0 && inside.as_bytes()[at - 1] != b' ' {
                    continue;
                }
                let object = &inside[at + 1..];
                if is_path(object) {
                    path = path.or(Some(at));
                    if depth == 0 {
                        whole = Some(at);
                        break;
                    }
                } else if word.is_none() && path.is_none() && is_word(object) {
                    word = Some(at);
                }
            }
            _ => {}
        }
    }
    match whole.or(path).or(word) {
        Some(at) => (inside[..at].trim_end(), &inside[at + 1..]),
        None => (text, ""),
    }
}

/// Returns true for an object without a path: `inlined`, `nf_conntrack`, `anon_inode:x`. Function
/// suffixes begin with a period: `(.cold)`.
fn is_word(object: &str) -> bool {
    let of_word = |c: char| c.is_alphanumeric() || "_-.:[]+".contains(c);
    !object.is_empty()
        && !object.starts_with('.')
        && object.chars().all(of_word)
        && !matches!(object, "anonymous" | "auto")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> (u64, &str, &str) {
        let frame = FrameLine::parse(line).unwrap_or_else(|| panic!("{line}"));
        (frame.address, frame.function, frame.object)
    }

    #[test]
    fn names_and_objects_keep_their_spaces_and_brackets() {
        for (line, wanted) in [
            (
                "\t  55d operator new(unsigned long)+0x1a (/usr/lib/libstdc++.so.6)",
                (
                    0x55d,
                    "operator new(unsigned long)",
                    "/usr/lib/libstdc++.so.6",
                ),
            ),
            (
                "\t 7f00 [unknown] ([unknown])",
                (0x7f00, "[unknown]", "[unknown]"),
            ),
            (
                "\t 113c [unknown] (/opt/app/delme2 (deleted))",
                (0x113c, "[unknown]", "/opt/app/delme2 (deleted)"),
            ),
            (
                "\t 113c f(int) const+0x2 (/tmp/a (copy) b)",
                (0x113c, "f(int) const", "/tmp/a (copy) b"),
            ),
            (
                "\t 113c f (/tmp/odd (name)",
                (0x113c, "f", "/tmp/odd (name"),
            ),
            ("\t 113c f (//anon)", (0x113c, "f", "//anon")),
            (
                "\t 113c f (/memfd:x y (deleted))",
                (0x113c, "f", "/memfd:x y (deleted)"),
            ),
            (
                "\t 113c f ([JIT app cache])",
                (0x113c, "f", "[JIT app cache]"),
            ),
            ("\t 113c f (nf_conntrack)", (0x113c, "f", "nf_conntrack")),
            ("\t 113c f (/opt/w+0x113c)", (0x113c, "f", "/opt/w")),
            ("\t 113c (/opt/w)", (0x113c, "", "/opt/w")),
            (
                "\t 113c ([kernel.kallsyms])",
                (0x113c, "", "[kernel.kallsyms]"),
            ),
            ("\t 113c", (0x113c, "", "")),
            // Without an object.
            ("\t 113c leaf_one", (0x113c, "leaf_one", "")),
            (
                "\t 113c (anonymous namespace)::f(int)",
                (0x113c, "(anonymous namespace)::f(int)", ""),
            ),
            (
                "\t 113c f(int) [clone .cold]",
                (0x113c, "f(int) [clone .cold]", ""),
            ),
            ("\t 113c f(int) (.cold)", (0x113c, "f(int) (.cold)", "")),
            (
                "\t 113c std::function<void (int)>::operator()(int) const",
                (
                    0x113c,
                    "std::function<void (int)>::operator()(int) const",
                    "",
                ),
            ),
            (
                "\t 113c void (*getfn(int))(int)",
                (0x113c, "void (*getfn(int))(int)", ""),
            ),
            // With an object.
            (
                "\t 113c (anonymous namespace)::f(int) (/opt/w)",
                (0x113c, "(anonymous namespace)::f(int)", "/opt/w"),
            ),
            (
                "\t 113c operator()(int) (/opt/w)",
                (0x113c, "operator()(int)", "/opt/w"),
            ),
            (
                "\t 113c f(int) (.cold)+0x1 (/opt/w)",
                (0x113c, "f(int) (.cold)", "/opt/w"),
            ),
            (
                "\t 113c foo (/home/x/app.js:10:5) (/tmp/perf-1.map)",
                (0x113c, "foo (/home/x/app.js:10:5)", "/tmp/perf-1.map"),
            ),
            ("\t 113c a+0xzz (/opt/w)", (0x113c, "a+0xzz", "/opt/w")),
            (
                "\t 113c main+0x2 (/opt/w) ilen: 3 insn: 48 89 c3",
                (0x113c, "main", "/opt/w"),
            ),
            // -F +brstack, +brstacksym, +iregs, +phys_addr, without callchains.
            (
                "\t 113c main+0x2 (/opt/w) 0x401136/0x401200/P/-/-/0 0x1/0x2/M/-/-/3",
                (0x113c, "main", "/opt/w"),
            ),
            (
                "\t 113c f(int) (/opt/w (deleted)) f(int)+0x1/g() const+0x2/P/-/-/0",
                (0x113c, "f(int)", "/opt/w (deleted)"),
            ),
            (
                "\t 113c main+0x2 (/opt/w) ABI:2    AX:0x1    BX:0x2",
                (0x113c, "main", "/opt/w"),
            ),
            (
                "\t 113c main+0x2 ([kernel.kallsyms])           10f5e123",
                (0x113c, "main", "[kernel.kallsyms]"),
            ),
            (
                "\t 113c main+0x2 0x401136/0x401200/P/-/-/0",
                (0x113c, "main", ""),
            ),
            (
                "\t 113c foo (/x/app.js:10:5) (/tmp/perf-1.map) 0x1/0x2/P/-/-/0",
                (0x113c, "foo (/x/app.js:10:5)", "/tmp/perf-1.map"),
            ),
            ("\t 113c operator() const", (0x113c, "operator() const", "")),
        ] {
            assert_eq!(parts(line), wanted, "{line}");
        }
        let inlined = FrameLine::parse("\t 10 core::hint::black_box (inlined)").unwrap();
        assert!(inlined.is_inlined);
        assert_eq!(FrameLine::parse("\tfile.c:12"), None);
        assert_eq!(FrameLine::parse("\t"), None);
    }

    #[test]
    fn the_code_stands_behind_the_data() {
        for (line, wanted) in [
            (
                "    7f00 [unknown] (//anon)     7fa14f658109 _int_malloc (/lib/libc.so.6)",
                (0x7fa1_4f65_8109, "_int_malloc", "/lib/libc.so.6"),
            ),
            (
                "    7f00 [unknown]     7fa14f658109 _int_malloc",
                (0x7fa1_4f65_8109, "_int_malloc", ""),
            ),
            (
                "    7f00 [unknown] (//anon) ffffffff81000000 clear_page ([kernel.kallsyms])",
                (0xffff_ffff_8100_0000, "clear_page", "[kernel.kallsyms]"),
            ),
            ("113c f add (/opt/w)", (0x113c, "f add", "/opt/w")),
            (
                "113c f(int, bool) (/opt/a b/w)",
                (0x113c, "f(int, bool)", "/opt/a b/w"),
            ),
        ] {
            let frame = FrameLine::at_end(line.trim()).unwrap();
            assert_eq!(
                (frame.address, frame.function, frame.object),
                wanted,
                "{line}"
            );
        }
        assert_eq!(FrameLine::at_end("NR 9 = 139"), None);
    }

    #[test]
    fn a_thread_whose_name_looks_like_an_address_is_no_frame() {
        let rest = " 30373.723753: sched:sched_waking:  ffffffff813b4986 f ([kernel.kallsyms])";
        for name in ["316ab7627aa390e", "  add", "dead "] {
            let line = format!("{name}{rest}");
            assert_eq!(FrameLine::parse(&line), None, "{line}");
        }
        for name in ["12.5", "a.b:", "1.:", ".5:", "v1.2:3"] {
            assert!(
                FrameLine::parse(&format!("113c {name} (/x)")).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn prose_is_no_frame() {
        for line in [
            "  a list of things",
            "  add more",
            "\tfee is due",
            "  100 apples",
            "\t2 pears",
            "a (b)",
            "\t12",
            "  12 34",
        ] {
            assert!(!FrameLine::is_proof(line), "{line}");
        }
        for line in [
            "\t 113c main",
            "\tadd f (/x)",
            "    7f00 [unknown] ([unknown])",
        ] {
            assert!(FrameLine::is_proof(line), "{line}");
        }
    }
}
