//! Tracepoint formats, payloads, and recordings with both.

use super::*;

/// Returns a tracepoint format with fields of many types, and this print format.
pub(crate) fn format_file(print: &str) -> String {
    let fields = [
        ("unsigned short common_type", 0, 2, 0),
        ("unsigned char common_flags", 2, 1, 0),
        ("unsigned char common_preempt_count", 3, 1, 0),
        ("int common_pid", 4, 4, 1),
        ("int i", 8, 4, 1),
        ("unsigned long flags", 16, 8, 0),
        ("char comm[8]", 24, 8, 0),
        ("__data_loc char[] name", 32, 4, 0),
        ("__rel_loc u16[] words", 36, 4, 0),
        ("void * ip", 40, 8, 0),
        ("__u8 v4[4]", 48, 4, 0),
    ];
    let mut text = String::from("name: event\nID: 42\nformat:\n");
    for (declaration, offset, size, signed) in fields {
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    text + "\nprint fmt: " + print + "\n"
}

pub(crate) fn payload(endian: Endian) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend(endian.put_u32(-5i32 as u32));
    out.extend([0; 4]);
    out.extend(endian.put_u64(0x83));
    out.extend(b"worker\0x");
    out.extend(endian.put_u32(6 << 16 | 56));
    out.extend(endian.put_u32(4 << 16 | 24));
    out.extend(endian.put_u64(0xffff_ffff_8100_0010));
    out.extend([127, 0, 0, 1, 0, 0, 0, 0]);
    out.extend(b"hello\0\0\0\x01\x00\x02\x00");
    out
}

pub(crate) fn tracing_data(text: &str, endian: Endian) -> Vec<u8> {
    let mut out = b"\x17\x08Dtracing0.6\0".to_vec();
    out.extend([u8::from(endian == Endian::Big), 8]);
    out.extend(endian.put_u32(4096));
    for header in [&b"header_page\0"[..], b"header_event\0"] {
        out.extend_from_slice(header);
        out.extend(endian.put_u64(0));
    }
    out.extend(endian.put_u32(0));
    out.extend(endian.put_u32(1));
    out.extend(b"system\0");
    out.extend(endian.put_u32(1));
    out.extend(endian.put_u64(text.len() as u64));
    out.extend(text.as_bytes());
    out.extend(endian.put_u32(0));
    let strings = b"0x1234 : \"a string\"\n";
    out.extend(endian.put_u32(strings.len() as u32));
    out.extend(strings);
    out.extend(endian.put_u64(0));
    out
}

pub(crate) fn tracepoint(seeds: &Seeds) -> Result<()> {
    let prints = [
        r#""i=%d comm=%s", REC->i, REC->comm"#,
        r#""%s %-10s|%5.2s", __get_str(name), __get_str(name), REC->comm"#,
        r#""%s", __print_flags(REC->flags, "|", { 1, "A" }, { 1 << 1, "B" }, { 0x80UL, "C" })"#,
        r#""%s", __print_symbolic(REC->i & 3, { 0, "zero" }, { 3, "three" })"#,
        r#""%pS %pI4 %p", REC->ip, REC->v4, (void *)REC->ip"#,
        r#""%s", __print_hex(REC->v4, 4)"#,
        r#""%s", __print_array(__get_rel_dynamic_array(words), 2, 2)"#,
        r#""%llu.%03lu", (unsigned long long)REC->flags / 1000ULL, REC->flags % 1000"#,
        r#""%s%x", REC->i < 0 ? "neg" : "pos", ~REC->i >> 2 | (REC->i && !REC->flags)"#,
        r#""%*pbl", 32, REC->v4"#,
        r#""%c%%%#o%+d%08lx", REC->i, REC->i, REC->i, sizeof(REC->flags)"#,
        r#""%d", jiffies(REC->i)"#,
    ];
    for (number, print) in prints.into_iter().enumerate() {
        let endian = ORDERS[number % 2];
        let payload = payload(endian);
        let mut out = vec![(number % 2) as u8, payload.len() as u8];
        out.extend(payload);
        out.extend(format_file(print).as_bytes());
        seeds.put(&format!("print{number}"), &out)?;
    }
    for (endian, order) in ORDERS.into_iter().zip(["little", "big"]) {
        let text = format_file(prints[0]);
        seeds.put(&format!("section-{order}"), &tracing_data(&text, endian))?;
    }
    Ok(())
}

pub(crate) fn tracepoint_file() -> Result<Vec<u8>> {
    let mut attr = attr(usual() | SampleType::RAW);
    (attr.kind, attr.config) = (EventKind::TRACEPOINT, 42);
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let mut sample = sample(5, 0x2000, vec![-512i64 as u64, 0x2000]);
    sample.raw = payload(Endian::NATIVE);
    let mut records = Vec::new();
    sample.encode(Misc::USER, &layout, &mut records)?;
    let mut out = Cursor::new(Vec::new());
    let event = EventDescription {
        attr,
        name: "system:event".into(),
        ids: vec![1],
    };
    let mut writer = FileWriter::create(&mut out, vec![event])?;
    writer.write_records(&records)?;
    let mut features = FeatureSections::new(Endian::NATIVE);
    let text = format_file(r#""i=%d %s %pS", REC->i, __get_str(name), REC->ip"#);
    features.insert(Feature::TRACING_DATA, tracing_data(&text, Endian::NATIVE));
    writer.finish(features)?;
    Ok(out.into_inner())
}
