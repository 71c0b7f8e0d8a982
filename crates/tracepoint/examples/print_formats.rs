//! Shows how this machine's kernel prints its tracepoints, of the named systems or of all:
//! `cargo run -p rprof-tracepoint --example print_formats -- sched`

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rprof_records::Endian;
use rprof_tracepoint::{EventFormat, FieldKind};

fn main() -> io::Result<()> {
    let events = Path::new("/sys/kernel/tracing/events");
    let mut systems: Vec<String> = std::env::args().skip(1).collect();
    if systems.is_empty() {
        let entries = fs::read_dir(events)?.flatten();
        systems.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
        systems.sort();
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for system in &systems {
        let Ok(entries) = fs::read_dir(events.join(system)) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(text) = fs::read_to_string(entry.path().join("format")) else {
                continue;
            };
            let long_size = size_of::<std::ffi::c_long>() as u8;
            if let Some(format) = EventFormat::parse(system, &text, Endian::NATIVE, long_size) {
                show(&format, &mut out)?;
            }
        }
    }
    out.flush()
}

/// Prints the fields of a tracepoint, and a payload of zeros as text.
fn show(format: &EventFormat, out: &mut dyn Write) -> io::Result<()> {
    let how = match format.is_printable() {
        true => "",
        false => " (its print format cannot be compiled)",
    };
    writeln!(out, "{}:{}{how}", format.system, format.name)?;
    let own = || format.fields.iter().filter(|field| !field.common);
    for field in own() {
        let shape = match field.kind {
            FieldKind::Scalar => String::new(),
            FieldKind::Array { element } => format!(" in elements of {element} bytes"),
            FieldKind::Dynamic { element, .. } => format!(" to elements of {element} bytes"),
        };
        let (name, offset, size) = (&field.name, field.offset, field.size);
        writeln!(out, "    {name}: {size} bytes at {offset}{shape}")?;
    }
    let end = format.fields.iter().map(|f| f.offset + f.size).max();
    let mut text = String::new();
    format.print(&vec![0; end.unwrap_or(0) as usize], &(), &mut text);
    writeln!(out, "  > {}", text.escape_debug())
}
