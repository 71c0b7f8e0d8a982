//! Text of records other than samples, in perf's format.

use std::io::{self, Write};

use rprof_analysis::RecordView;
use rprof_records::{AuxFlags, Misc, Mmap2, MmapIdentity, RawBytes, Record, RecordType};

use crate::sample::{LinePrefix, Writer};
use crate::values;
use rprof_export::clean::clean;

/// Namespaces in the order of a NAMESPACES record.
const NAMESPACES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];

impl Writer<'_> {
    pub(crate) fn side_record(&self, view: &RecordView<'_>, out: &mut dyn Write) -> io::Result<()> {
        let prefix = LinePrefix {
            comm: &view.comm,
            pid: view.pid,
            tid: view.tid,
            cpu: view.cpu,
            time: view.time,
            kind: view.kind,
            misc: view.misc,
        };
        if let Record::Read { pid, tid, values } = &view.record {
            if let Some(plan) = self.plan.events.get(view.event_index) {
                self.write_prefix(&prefix, plan, out)?;
            }
            write!(out, "PERF_RECORD_READ {pid}/{tid}")?;
            values::write_counts(values, view.event_index, self.samples, out)?;
            return writeln!(out);
        }
        if let Some(plan) = self.plan.events.get(view.event_index) {
            self.write_prefix(&prefix, plan, out)?;
        }
        let name = view.kind.name().unwrap_or("UNKNOWN");
        write!(out, "PERF_RECORD_{name}")?;
        body(&view.record, view.misc, view.kind, out)
    }
}

fn text(bytes: &[u8]) -> String {
    clean(&String::from_utf8_lossy(bytes)).into_owned()
}

/// Formats like printf's `%#x`: `0x…`, but `0` for zero.
fn hex(value: u64) -> String {
    match value {
        0 => "0".into(),
        value => format!("{value:#x}"),
    }
}

fn body(record: &Record<'_>, misc: Misc, kind: RecordType, out: &mut dyn Write) -> io::Result<()> {
    match record {
        Record::Mmap(m) => {
            let letter = if misc.has(Misc::MMAP_DATA) { 'r' } else { 'x' };
            let range = range(m.start, m.len, m.pgoff);
            let path = text(&m.path);
            writeln!(out, " {}/{}: [{range}]: {letter} {path}", m.pid, m.tid)
        }
        Record::Mmap2(m) => mmap2(m, out),
        Record::Comm(c) => {
            let exec = if misc.has(Misc::COMM_EXEC) {
                " exec"
            } else {
                ""
            };
            writeln!(out, "{exec}: {}:{}/{}", text(&c.name), c.pid, c.tid)
        }
        Record::Fork(t) | Record::Exit(t) => {
            writeln!(out, "({}:{}):({}:{})", t.pid, t.tid, t.ppid, t.ptid)
        }
        Record::Lost(l) => writeln!(out, " lost {}", l.lost),
        Record::LostSamples { lost } => writeln!(out, " lost {lost}"),
        Record::Switch => writeln!(out, " {}", direction(misc)),
        Record::SwitchCpuWide {
            next_prev_pid,
            next_prev_tid,
        } => {
            let other = match misc.has(Misc::SWITCH_OUT) {
                true => "next",
                false => "prev",
            };
            writeln!(
                out,
                " {}  {other} pid/tid: {next_prev_pid:5}/{next_prev_tid:<5}",
                direction(misc)
            )
        }
        Record::Namespaces { pid, tid, links } => namespaces(*pid, *tid, links, out),
        Record::Ksymbol {
            addr,
            len,
            ksym_type,
            flags,
            name,
        } => writeln!(
            out,
            " addr {addr:x} len {len} type {ksym_type} flags {flags:#x} name {}",
            text(name)
        ),
        Record::BpfEvent {
            kind, flags, id, ..
        } => writeln!(out, " type {kind}, flags {flags}, id {id}"),
        Record::Aux {
            offset,
            size,
            flags,
        } => writeln!(
            out,
            " offset: {} size: {} flags: {} [{}]",
            hex(*offset),
            hex(*size),
            hex(*flags),
            AuxFlags(*flags).letters()
        ),
        Record::ItraceStart { pid, tid } => writeln!(out, " pid: {pid} tid: {tid}"),
        Record::Cgroup { id, path } => writeln!(out, " cgroup: {id} {}", text(path)),
        Record::TextPoke {
            addr,
            old_len,
            new_len,
            bytes,
        } => {
            writeln!(out, " {addr:x}  old len {old_len} new len {new_len}")?;
            let old = usize::from(*old_len).min(bytes.len());
            poked("old", bytes.get(0..old), out)?;
            poked("new", bytes.get_from(old), out)
        }
        _ => writeln!(out, " {kind}"),
    }
}

fn namespaces(pid: i32, tid: i32, links: &[(u64, u64)], out: &mut dyn Write) -> io::Result<()> {
    write!(out, " {pid}/{tid} - nr_namespaces: {}\n\t\t[", links.len())?;
    for (i, (device, inode)) in links.iter().enumerate() {
        if i > 0 && i % 4 == 0 {
            write!(out, "\n\t\t ")?;
        }
        let name = NAMESPACES.get(i).unwrap_or(&"UNKNOWN");
        let comma = if i + 1 < links.len() { ", " } else { "]\n" };
        write!(out, "{i}/{name}: {device}/{inode:#x}{comma}")?;
    }
    match links.is_empty() {
        true => writeln!(out, "]"),
        false => Ok(()),
    }
}

fn range(start: u64, len: u64, offset: u64) -> String {
    format!("{}({}) @ {}", hex(start), hex(len), hex(offset))
}

fn mmap2(m: &Mmap2<'_>, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        " {}/{}: [{}",
        m.pid,
        m.tid,
        range(m.start, m.len, m.pgoff)
    )?;
    match m.identity {
        MmapIdentity::BuildId(id) => write!(out, " <{id}>")?,
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            generation,
        } => write!(out, " {major:02x}:{minor:02x} {inode} {generation}")?,
    }
    let letter = |set: bool, letter| if set { letter } else { '-' };
    writeln!(
        out,
        "]: {}{}{}{} {}",
        letter(m.prot & 1 != 0, 'r'),
        letter(m.prot & 2 != 0, 'w'),
        letter(m.prot & 4 != 0, 'x'),
        // MAP_SHARED
        if m.flags & 1 != 0 { 's' } else { 'p' },
        text(&m.path)
    )
}

fn direction(misc: Misc) -> &'static str {
    match (
        misc.has(Misc::SWITCH_OUT),
        misc.has(Misc::SWITCH_OUT_PREEMPT),
    ) {
        (false, _) => "IN         ",
        (true, false) => "OUT        ",
        (true, true) => "OUT preempt",
    }
}

fn poked(what: &str, bytes: Option<RawBytes<'_>>, out: &mut dyn Write) -> io::Result<()> {
    let bytes = bytes.map(|b| b.to_cow()).unwrap_or_default();
    for line in bytes.chunks(16) {
        write!(out, "            {what} bytes:")?;
        for byte in line {
            write!(out, " {byte:02x}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
