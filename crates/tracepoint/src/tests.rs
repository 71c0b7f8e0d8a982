//! Formats of the kernel, with payloads and expected text.

use rprof_records::Endian;

use super::{EventFormat, FieldKind, KernelNames, Tracepoints};

const COMMON: &str = "\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

fn text(name: &str, fields: &[(&str, u32, u32, bool)], print: &str) -> String {
    let mut text = format!("name: {name}\nID: 42\nformat:\n{COMMON}\n");
    for (declaration, offset, size, signed) in fields {
        let signed = u8::from(*signed);
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    text + "\nprint fmt: " + print + "\n"
}

fn parse(fields: &[(&str, u32, u32, bool)], print: &str) -> EventFormat {
    EventFormat::parse("test", &text("event", fields, print), Endian::Little, 8).unwrap()
}

struct Known;

impl KernelNames for Known {
    fn kernel_function(&self, address: u64) -> Option<(&str, u64)> {
        (address >> 16 == 0xffff_ffff_8100).then_some(("do_it", address & 0xffff))
    }

    fn kernel_string(&self, address: u64) -> Option<&str> {
        (address == 0x1234).then_some("Start context switch")
    }
}

fn print(format: &EventFormat, payload: &[u8]) -> String {
    let mut out = String::new();
    format.print(payload, &Known, &mut out);
    out
}

/// Prints an expression with one conversion, such as `%s`, over a fixed payload.
fn one(conversion: &str, expression: &str) -> String {
    let fields = [
        ("int i", 8, 4, true),
        ("unsigned int u", 12, 4, false),
        ("u64 big", 16, 8, false),
        ("char comm[8]", 24, 8, false),
        ("__data_loc char[] name", 32, 4, false),
        ("__rel_loc u16[] words", 36, 4, false),
        ("void * ip", 40, 8, false),
        ("__u8 v4[4]", 48, 4, false),
        ("long l", 56, 8, true),
    ];
    let mut payload = vec![0; 8];
    payload.extend((-5i32).to_le_bytes());
    payload.extend(0x0c10_0003u32.to_le_bytes());
    payload.extend(u64::MAX.to_le_bytes());
    payload.extend(b"worker\0x");
    payload.extend((6u32 << 16 | 64).to_le_bytes());
    payload.extend((4u32 << 16 | 32).to_le_bytes());
    payload.extend(0xffff_ffff_8100_0010u64.to_le_bytes());
    payload.extend([127, 0, 0, 1, 0, 0, 0, 0]);
    payload.extend((-1i64).to_le_bytes());
    payload.extend(b"hello\0\0\0");
    payload.extend([7, 0, 1, 2]);
    let format = parse(&fields, &format!("\"{conversion}\", {expression}"));
    print(&format, &payload)
}

#[test]
fn expressions() {
    let table = [
        ("%d", "REC->i", "-5"),
        ("%u", "REC->i", "4294967291"),
        ("%5d|", "REC->i", "   -5|"),
        ("%#x", "REC->u >> 20", "0xc1"),
        ("%u", "((unsigned int) ((REC->u) & ((1U << 20) - 1)))", "3"),
        ("%lld", "(long long)REC->i", "-5"),
        ("%llu", "REC->big", "18446744073709551615"),
        ("%d", "REC->i < 0", "1"),
        ("%d", "REC->big > 5", "1"),
        ("%d", "REC->l == -1 && !0 || 0", "1"),
        ("%d", "2 + 3 * 4 - 6 / 4 % 2", "13"),
        ("%d", "1 ? 2 : 0 ? 3 : 4", "2"),
        ("%x", "~0 ^ 0xf0", "ffffff0f"),
        ("%d", "(s8)200", "-56"),
        ("%d", "(bool)REC->u", "1"),
        ("%d", "sizeof(u64) + sizeof(REC->comm)", "16"),
        ("%c", "'x'", "x"),
        ("%s", "REC->comm", "worker"),
        ("%.3s", "REC->comm", "wor"),
        ("%-8s|", "REC->comm", "worker  |"),
        ("%s", "__get_str(name)", "hello"),
        ("%d", "__get_str(name)[1]", "101"),
        ("%s", "REC->i ? \"yes\" : \"no\"", "yes"),
        ("%d", "__get_rel_dynamic_array_len(words)", "4"),
        (
            "%s",
            "__print_array(__get_rel_dynamic_array(words), 2, 2)",
            "{0x7,0x201}",
        ),
        (
            "%s",
            "__print_hex(__get_dynamic_array(name), 3)",
            "68 65 6c",
        ),
        ("%s", "__print_hex_str(REC->v4, 9)", "7f000001"),
        ("%x", "((u16 *)__get_rel_dynamic_array(words))[1]", "201"),
        ("%pS", "(void *)REC->ip", "do_it+0x10"),
        ("%ps", "REC->ip", "do_it"),
        ("%pS", "0x10", "0x10"),
        ("%p", "REC->ip", "0xffffffff81000010"),
        ("%p", "0", "(nil)"),
        ("%pI4", "REC->v4", "127.0.0.1"),
        ("%pI4", "&REC->v4", "127.0.0.1"),
        ("%s", "0x1234", "Start context switch"),
        ("%d%%", "7", "7%"),
        (
            "%s",
            "__print_flags(REC->u, \"|\", { 1, \"A\" }, { 1 << 1, \"B\" }, { 0x4, \"C\" })",
            "A|B|0xc100000",
        ),
        (
            "%s",
            "__print_flags(0, \"|\", { 0, \"none\" }, { 1, \"A\" })",
            "",
        ),
        (
            "%s",
            "__print_symbolic(REC->i, { -5, \"minus\" }, { 1, \"one\" })",
            "minus",
        ),
        (
            "%s",
            "__print_symbolic(3, { -5, \"minus\" }, { 1, \"one\" })",
            "0x3",
        ),
        (
            "%s",
            "__print_symbolic(3, {3, \"three\"}, { 0, ((void *)0) } )",
            "three",
        ),
        // Values known only to the kernel.
        ("age=%lu", "(jiffies - REC->u) / 250", "age=?"),
        (
            "%s",
            "__print_symbolic(3, { SOME_ENUM, \"some\" }, { 3, \"three\" })",
            "three",
        ),
        ("%d", "1 / 0", "?"),
        ("%d", "REC->comm", "?"),
    ];
    for (conversion, expression, expected) in table {
        assert_eq!(
            one(conversion, expression),
            expected,
            "{conversion} {expression}"
        );
    }
}

#[test]
fn what_is_beyond_us_is_told_field_by_field() {
    let fields = [
        ("char comm[4]", 8, 4, false),
        ("const char * where", 12, 8, false),
        ("u8 id[2]", 20, 2, false),
        ("unsigned long mask", 24, 8, false),
        ("short n", 32, 2, true),
    ];
    let mut payload = vec![0; 8];
    payload.extend(b"ab\0\0");
    payload.extend(0xff00u64.to_le_bytes());
    payload.extend([0x80, 1, 0, 0]);
    payload.extend(16u64.to_le_bytes());
    payload.extend((-2i16).to_le_bytes());
    let told = "[FAILED TO PARSE] comm=ab where=0xff00 id=ARRAY[80, 01] mask=0x10 n=-2";
    for beyond in [
        "\"%d\", unknown_function(REC->n)",
        "\"%d\", ({ int x = 1; x; })",
        "\"%d\"",
        "\"%d\", 1, 2",
        "\"%y\", 1",
        "\"%d\", REC->no_such_field",
        "\"unterminated",
        "REC->n",
    ] {
        let format = parse(&fields, beyond);
        assert!(!format.is_printable());
        assert_eq!(print(&format, &payload), told, "{beyond}");
    }
}

#[test]
fn sched_switch() {
    let fields = [
        ("char prev_comm[16]", 8, 16, false),
        ("pid_t prev_pid", 24, 4, true),
        ("int prev_prio", 28, 4, true),
        ("long prev_state", 32, 8, true),
        ("char next_comm[16]", 40, 16, false),
        ("pid_t next_pid", 56, 4, true),
        ("int next_prio", 60, 4, true),
    ];
    let mask = "((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000040) + 1) << 1) - 1)";
    let print_fmt = format!(
        "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d \
         next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & \
         {mask}) ? __print_flags(REC->prev_state & {mask}, \"|\", {{ 0x00000001, \"S\" }}, \
         {{ 0x00000002, \"D\" }}) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", \
         REC->next_comm, REC->next_pid, REC->next_prio"
    );
    let format = parse(&fields, &print_fmt);
    let payload = |state: u64| {
        let mut payload = vec![0; 8];
        payload.extend(b"swapper/1\0\0\0\0\0\0\0");
        payload.extend(0u32.to_le_bytes());
        payload.extend(120u32.to_le_bytes());
        payload.extend(state.to_le_bytes());
        payload.extend(b"exactly16letters");
        payload.extend(17u32.to_le_bytes());
        payload.extend((-1i32).to_le_bytes());
        payload
    };
    let whole = |state: &str| {
        format!(
            "prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state={state} ==> \
             next_comm=exactly16letters next_pid=17 next_prio=-1"
        )
    };
    assert_eq!(print(&format, &payload(0)), whole("R"));
    assert_eq!(print(&format, &payload(2)), whole("D"));
    assert_eq!(print(&format, &payload(0x100)), whole("R+"));
    // Payload truncated at any byte.
    let full = payload(1);
    for len in 0..full.len() {
        print(&format, &full[..len]);
    }
    assert!(print(&format, &full[..30]).contains("prev_prio=? prev_state=?"));
}

#[test]
fn fields_of_all_forms() {
    let format = parse(
        &[
            ("unsigned long caller[8]", 8, 64, false),
            ("__data_loc char[] name", 72, 4, true),
            ("char buf[]", 76, 0, false),
            ("char *text", 80, 8, false),
        ],
        "\"\"",
    );
    let kinds: Vec<_> = (format.fields.iter().filter(|f| !f.common))
        .map(|f| (f.name.as_str(), f.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("caller", FieldKind::Array { element: 8 }),
            (
                "name",
                FieldKind::Dynamic {
                    element: 1,
                    relative: false
                }
            ),
            ("buf", FieldKind::Array { element: 1 }),
            ("text", FieldKind::Scalar),
        ]
    );
    assert_eq!(print(&format, &[]), "");
}

#[test]
fn a_catalog_finds_formats_by_their_ids() {
    let text = text("event", &[("int n", 8, 4, true)], "\"n=%d\", REC->n");
    for endian in [Endian::Little, Endian::Big] {
        let mut tracepoints = Tracepoints::new(endian, 8);
        tracepoints.add(b"test", text.as_bytes());
        tracepoints.add(b"test", b"name: without an id");
        assert_eq!(tracepoints.ids().collect::<Vec<_>>(), [42]);
        assert!(tracepoints.format(43).is_none());
        let format = tracepoints.format(42).unwrap();
        assert_eq!((&*format.system, &*format.name), ("test", "event"));
        let mut payload = vec![0; 8];
        payload.extend(endian.put_u32(7));
        assert_eq!(print(&format, &payload), "n=7");
    }
}

#[test]
fn hostile_texts_end_soon() {
    let fields = [("int n", 8, 4, true), ("char all[]", 8, 0, false)];
    let nested = format!("\"%d\", {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(!parse(&fields, &nested).is_printable());
    let prefixes = format!("\"%d\", {}1", "-".repeat(100_001));
    assert!(!parse(&fields, &prefixes).is_printable());
    let ternaries = format!("\"%d\", {}1", "1 ? 2 : ".repeat(100_000));
    assert!(!parse(&fields, &ternaries).is_printable());
    // A long flat sum is not nested, but evaluation stops at the work budget.
    let payload = vec![b'x'; 60_000];
    let sum = |n| parse(&fields, &format!("\"%d\", 0{}", "+1".repeat(n)));
    assert_eq!(print(&sum(100_000), &payload), "100000");
    assert_eq!(print(&sum(3_000_000), &payload), "?");
    // Text that grows a thousandfold is truncated.
    let conversions = "%s".repeat(1000);
    let arguments = ", REC->all".repeat(1000);
    let long = parse(&fields, &format!("\"{conversions}\"{arguments}"));
    assert_eq!(print(&long, &payload).len(), 1 << 16);
    let hex = ", __print_hex(REC->all, 60000)".repeat(1000);
    let long = parse(&fields, &format!("\"{}\"{hex}", "%.1s".repeat(1000)));
    assert!(print(&long, &payload).ends_with("???"));
}

#[test]
fn formats_of_this_machine() {
    rprof_testing::needs!(Tracepoints);
    let systems = std::fs::read_dir("/sys/kernel/tracing/events").unwrap();
    let (mut total, mut beyond) = (0, Vec::new());
    for system in systems.flatten() {
        let Ok(events) = std::fs::read_dir(system.path()) else {
            continue;
        };
        for event in events.flatten() {
            let Ok(text) = std::fs::read_to_string(event.path().join("format")) else {
                continue;
            };
            let name = event.file_name().to_string_lossy().into_owned();
            let format = EventFormat::parse("any", &text, Endian::NATIVE, 8);
            assert_eq!(format.as_ref().map(|f| &*f.name), Some(&*name));
            let format = format.unwrap();
            assert!(EventFormat::id_of(&text).is_some());
            let end = format
                .fields
                .iter()
                .map(|f| f.offset + f.size)
                .max()
                .unwrap();
            let mut out = String::new();
            format.print(&vec![0; end as usize], &(), &mut out);
            format.print(&vec![0xff; end as usize], &(), &mut out);
            total += 1;
            if !format.is_printable() {
                beyond.push(name);
            }
        }
    }
    // Statement expressions and private functions: 1 % on Linux 6.18.
    assert!(
        beyond.len() * 20 <= total,
        "{} of {total}: {beyond:?}",
        beyond.len()
    );
}
