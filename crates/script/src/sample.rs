//! The line of a sample.

use std::io::{self, Write};

use rprof_analysis::{SampleView, Samples};
use rprof_export::clean::clean;
use rprof_perfdata::Feature;
use rprof_records::{Misc, RecordType, RegisterNames, Sample};

use crate::data_src::DataSourceColumn;
use crate::fields::{FieldSet, OutputField};
use crate::options::ScriptOptions;
use crate::plan::{EventPlan, Plan};
use crate::values::Cgroups;
use crate::{bpf_output, branches, frames, registers, values};

pub(crate) struct Writer<'w> {
    pub(crate) options: &'w ScriptOptions,
    pub(crate) plan: &'w Plan,
    pub(crate) samples: &'w Samples<'w>,
    registers: RegisterNames,
    cgroups: Cgroups,
    data_source: DataSourceColumn,
    text: String,
}

pub(crate) struct LinePrefix<'s> {
    pub(crate) comm: &'s str,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) cpu: Option<u32>,
    pub(crate) time: u64,
    pub(crate) kind: RecordType,
    pub(crate) misc: Misc,
}

impl<'w> Writer<'w> {
    pub(crate) fn new(
        options: &'w ScriptOptions,
        plan: &'w Plan,
        samples: &'w Samples<'w>,
    ) -> Self {
        let data = samples.index().data;
        let architecture = data.features().string(Feature::ARCH);
        let shows_cgroups = plan
            .events
            .iter()
            .any(|e| e.fields.has(OutputField::Cgroup));
        Writer {
            options,
            plan,
            samples,
            registers: RegisterNames::new(
                architecture.as_deref().unwrap_or(std::env::consts::ARCH),
            ),
            cgroups: match shows_cgroups {
                true => Cgroups::read(data),
                false => Cgroups::default(),
            },
            data_source: DataSourceColumn::default(),
            text: String::new(),
        }
    }

    pub(crate) fn write_prefix(
        &self,
        prefix: &LinePrefix<'_>,
        plan: &EventPlan,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let fields = plan.fields;
        if fields.has(OutputField::Comm) {
            let comm = clean(prefix.comm);
            // If frames follow, the name is not indented.
            match fields.has(OutputField::Ip) && plan.callchain {
                true => write!(out, "{comm} ")?,
                false => write!(out, "{comm:>16} ")?,
            }
        }
        match (fields.has(OutputField::Pid), fields.has(OutputField::Tid)) {
            (true, true) => write!(out, "{:5}/{:<5} ", prefix.pid, prefix.tid)?,
            (true, false) => write!(out, "{:5} ", prefix.pid)?,
            (false, true) => write!(out, "{:5} ", prefix.tid)?,
            (false, false) => {}
        }
        if fields.has(OutputField::Cpu) {
            match prefix.cpu {
                Some(cpu) => write!(out, "[{cpu:03}] ")?,
                None => write!(out, "[-01] ")?,
            }
        }
        if fields.has(OutputField::Misc) {
            write!(out, "{:6}", misc_letters(prefix.kind, prefix.misc))?;
        }
        if fields.has(OutputField::Time) {
            let (seconds, nanos) = (prefix.time / 1_000_000_000, prefix.time % 1_000_000_000);
            match self.options.nanoseconds {
                true => write!(out, "{seconds:5}.{nanos:09}: ")?,
                false => write!(out, "{seconds:5}.{:06}: ", nanos / 1000)?,
            }
        }
        Ok(())
    }

    pub(crate) fn sample(&mut self, view: &SampleView<'_>, out: &mut dyn Write) -> io::Result<()> {
        let plan = self.plan.events[view.event_index];
        let fields = plan.fields;
        if fields.is_empty() {
            return Ok(());
        }
        let record = match plan.needs_record() {
            true => view.record(),
            false => None,
        };
        let prefix = LinePrefix {
            comm: view.comm,
            pid: view.pid,
            tid: view.tid,
            cpu: view.cpu,
            time: view.time,
            kind: RecordType::SAMPLE,
            misc: record.map_or(Misc(0), |(misc, _)| misc),
        };
        self.write_prefix(&prefix, &plan, out)?;
        if fields.has(OutputField::Period) {
            write!(out, "{:10} ", view.period)?;
        }
        if fields.has(OutputField::Event) {
            let width = self.plan.name_width;
            write!(out, "{:>width$}: ", clean(view.event))?;
        }
        let sample = record.map(|(_, sample)| sample);
        if let Some(sample) = &sample {
            self.before_frames(view, sample, &plan, out)?;
        }
        frames::write(view, &plan, self.options, out)?;
        if let Some(sample) = &sample {
            self.after_frames(view, sample, fields, out)?;
        }
        writeln!(out)
    }

    fn before_frames(
        &mut self,
        view: &SampleView<'_>,
        sample: &Sample<'_>,
        plan: &EventPlan,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let fields = plan.fields;
        if fields.has(OutputField::Trace) {
            self.text.clear();
            if !view.print_trace(sample, &mut self.text) {
                self.text.push_str("[no description of this tracepoint]");
            }
            write!(out, "{}", clean_lines(&self.text))?;
        }
        if fields.has(OutputField::Addr)
            && let Some(addr) = sample.addr()
        {
            write!(out, "{addr:16x}")?;
            if plan.named_address {
                let frame = view.locate(sample, addr);
                frames::write_names(frame.as_ref(), fields, out)?;
            }
        }
        if fields.has(OutputField::DataSrc)
            && let Some(source) = sample.data_src()
        {
            self.data_source.write(source, out)?;
        }
        if let Some(weight) = sample.weight() {
            if fields.has(OutputField::Weight) {
                write!(out, "{:16}", weight.cost())?;
            }
            let parts = weight.parts();
            if let (true, Some(parts)) = (fields.has(OutputField::InsLat), parts) {
                write!(out, "{:16}", parts.instruction_latency)?;
            }
            if let (true, Some(parts)) = (fields.has(OutputField::PStageCyc), parts) {
                write!(out, "{:16}", parts.stage_cycles)?;
            }
        }
        if fields.has(OutputField::Cgroup)
            && let Some(id) = sample.cgroup()
        {
            write!(out, " {}", self.cgroups.name(id))?;
        }
        if fields.has(OutputField::Transaction)
            && let Some(transaction) = sample.transaction()
        {
            write!(out, " {:#x} {transaction}", transaction.0)?;
        }
        if fields.has(OutputField::Id)
            && let Some(id) = sample.id()
        {
            write!(out, " id={id}")?;
        }
        if fields.has(OutputField::StreamId)
            && let Some(id) = sample.stream_id()
        {
            write!(out, " stream_id={id}")?;
        }
        if fields.has(OutputField::Read)
            && let Some(read) = sample.read()
        {
            values::write_read(&read, view, self.samples, out)?;
        }
        Ok(())
    }

    fn after_frames(
        &self,
        view: &SampleView<'_>,
        sample: &Sample<'_>,
        fields: FieldSet,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if fields.has(OutputField::IRegs)
            && let Some(r) = sample.regs_intr()
        {
            registers::write(&r, &self.registers, out)?;
        }
        if fields.has(OutputField::URegs)
            && let Some(r) = sample.regs_user()
        {
            registers::write(&r, &self.registers, out)?;
        }
        branches::write(view, sample, fields, out)?;
        if fields.has(OutputField::BpfOutput)
            && let Some(raw) = sample.raw()
        {
            bpf_output::write(&raw.to_cow(), out)?;
        }
        if fields.has(OutputField::PhysAddr)
            && let Some(addr) = sample.phys_addr()
        {
            write!(out, "{addr:16x}")?;
        }
        if fields.has(OutputField::DataPageSize)
            && let Some(size) = sample.data_page_size()
        {
            write!(out, " {}", values::page_size(size))?;
        }
        if fields.has(OutputField::CodePageSize)
            && let Some(size) = sample.code_page_size()
        {
            write!(out, " {}", values::page_size(size))?;
        }
        if fields.has(OutputField::Stack)
            && let Some(stack) = sample.stack_user()
        {
            write!(out, " stack={}/{}", stack.bytes.len(), stack.reserved)?;
            values::write_dump(&stack.bytes.to_cow(), out)?;
        }
        if fields.has(OutputField::Aux)
            && let Some(aux) = sample.aux()
        {
            write!(out, " aux={}", aux.len())?;
            values::write_dump(&aux.to_cow(), out)?;
        }
        if fields.has(OutputField::Raw)
            && let Some(raw) = sample.raw()
        {
            values::write_dump(&raw.to_cow(), out)?;
        }
        Ok(())
    }
}

/// Formats header bits as letters, like perf.
fn misc_letters(kind: RecordType, misc: Misc) -> String {
    let mut letters = match misc.0 & 7 {
        1 => "K",
        2 => "U",
        3 => "H",
        4 => "G",
        5 => "g",
        _ => "",
    }
    .to_owned();
    match kind {
        RecordType::MMAP | RecordType::MMAP2 if misc.has(Misc::MMAP_DATA) => letters.push('M'),
        RecordType::COMM if misc.has(Misc::COMM_EXEC) => letters.push('E'),
        RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE if misc.has(Misc::SWITCH_OUT) => {
            letters.push('S');
            if misc.has(Misc::SWITCH_OUT_PREEMPT) {
                letters.push('p');
            }
        }
        _ => {}
    }
    letters
}

/// Returns the text of a tracepoint without newlines and tabs, which print formats may contain.
fn clean_lines(text: &str) -> String {
    let one_line = text.trim_end_matches('\n').replace(['\n', '\t'], " ");
    clean(&one_line).into_owned()
}
