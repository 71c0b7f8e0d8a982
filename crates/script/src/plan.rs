//! Fields of each event of a recording.

use rprof_analysis::samples::{Details, event_names};
use rprof_perfdata::PerfData;
use rprof_records::{Attr, AttrFlags, EventKind, RecordType, SampleType};

use crate::error::ScriptError;
use crate::fields::{FieldSet, OutputField};
use crate::options::{ScriptOptions, SideRecords};
use crate::selection::{KINDS, kind_of};

/// Fields and format of one event's samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPlan {
    pub(crate) fields: FieldSet,
    /// True if frames have their own lines.
    pub(crate) callchain: bool,
    /// True if the user requested functions or objects by name, to show them even without the
    /// address. (`-ip` alone hides them too.)
    pub(crate) names_leaf: bool,
    pub(crate) named_address: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) events: Vec<EventPlan>,
    /// Length of the longest event name.
    pub(crate) name_width: usize,
}

impl Plan {
    pub(crate) fn new(data: &PerfData, options: &ScriptOptions) -> Result<Plan, ScriptError> {
        let events = data.events().list();
        let names = event_names(data);
        let has_chain = |sample_type: SampleType| sample_type.contains(SampleType::CALLCHAIN);
        let mut selection = options.fields.clone();
        // Like perf, fails only for explicitly requested fields, and drops others.
        for kind in 0..KINDS {
            // Dummy events exist for their side records and have no samples.
            let mut of_kind = (events.iter().enumerate())
                .filter(|(_, e)| kind_of(&e.attr) == kind && !is_dummy(&e.attr));
            let Some(first) = of_kind.clone().next() else {
                continue;
            };
            for field in selection.asked[kind].iter() {
                let mut attrs = of_kind.clone().map(|(_, event)| &event.attr);
                if !attrs.clone().any(|attr| field.applies_to(attr)) {
                    continue;
                }
                if !attrs.any(|attr| field.is_recorded(attr)) {
                    return Err(ScriptError::FieldMissing {
                        event: names[first.0].to_string(),
                        attribute: field.needed_attribute(),
                        field: field.name(),
                    });
                }
            }
            // Tracepoints show their location if any of them has callchains.
            let is_tracepoint = EventKind(kind as u32) == EventKind::TRACEPOINT;
            if is_tracepoint
                && !selection.chosen[kind]
                && !options.hide_callchains
                && of_kind.any(|(_, e)| has_chain(e.attr.sample_type))
            {
                for field in [
                    OutputField::Ip,
                    OutputField::Sym,
                    OutputField::SymOff,
                    OutputField::Dso,
                ] {
                    selection.shown[kind].add(field);
                }
            }
        }
        let plans = (events.iter())
            .map(|event| {
                let (attr, kind) = (&event.attr, kind_of(&event.attr));
                let is_there =
                    |field: &OutputField| field.applies_to(attr) && field.is_recorded(attr);
                let fields = selection.shown[kind].iter().filter(is_there).collect();
                EventPlan {
                    fields,
                    callchain: !options.hide_callchains && has_chain(attr.sample_type),
                    names_leaf: selection.asked[kind]
                        .has_any(&[OutputField::Sym, OutputField::Dso]),
                    named_address: is_named_address(attr),
                }
            })
            .collect();
        let widths = names.iter().map(|name| name.chars().count());
        Ok(Plan {
            events: plans,
            name_width: widths.max().unwrap_or(0),
        })
    }

    pub(crate) fn details(&self, side: SideRecords) -> Details {
        let any = |fields: &[OutputField]| self.events.iter().any(|e| e.fields.has_any(fields));
        let named = |e: &EventPlan| e.named_address && e.fields.has(OutputField::Addr);
        Details {
            // Fields that the index does not store.
            records: self.events.iter().any(EventPlan::needs_record),
            addresses: any(&[OutputField::Sym, OutputField::Dso]) && self.events.iter().any(named),
            branches: any(&[OutputField::BrStackSym, OutputField::BrStackOff])
                || (any(&[OutputField::BrStack]) && any(&[OutputField::Dso])),
            trace: any(&[OutputField::Trace]),
            side: side.types(),
        }
    }
}

impl EventPlan {
    pub(crate) fn needs_record(&self) -> bool {
        use OutputField as F;
        let kept = [
            F::Comm,
            F::Tid,
            F::Pid,
            F::Time,
            F::Cpu,
            F::Event,
            F::Period,
            F::Ip,
            F::Sym,
            F::SymOff,
            F::Dso,
        ];
        self.fields.iter().any(|f| !kept.contains(&f))
    }
}

fn is_dummy(attr: &Attr) -> bool {
    attr.kind == EventKind::SOFTWARE && attr.config == 9
}

/// Returns true if perf names ADDR: for page faults and branches.
fn is_named_address(attr: &Attr) -> bool {
    const PAGE_FAULTS: [u64; 3] = [2, 5, 6];
    const BRANCH_INSTRUCTIONS: u64 = 4;
    match attr.kind {
        EventKind::SOFTWARE => PAGE_FAULTS.contains(&attr.config),
        EventKind::HARDWARE => {
            attr.config == BRANCH_INSTRUCTIONS
                && attr.period_or_freq == 1
                && !attr.flags.contains(AttrFlags::FREQ)
        }
        _ => false,
    }
}

impl SideRecords {
    fn types(self) -> Vec<RecordType> {
        let mut types = Vec::new();
        let mut add = |wanted: bool, list: &[RecordType]| {
            if wanted {
                types.extend_from_slice(list);
            }
        };
        add(self.lost, &[RecordType::LOST, RecordType::LOST_SAMPLES]);
        add(self.mmap, &[RecordType::MMAP, RecordType::MMAP2]);
        add(
            self.task,
            &[RecordType::COMM, RecordType::FORK, RecordType::EXIT],
        );
        add(
            self.switch,
            &[RecordType::SWITCH, RecordType::SWITCH_CPU_WIDE],
        );
        add(self.read, &[RecordType::READ]);
        add(self.aux, &[RecordType::AUX, RecordType::ITRACE_START]);
        add(self.namespaces, &[RecordType::NAMESPACES]);
        add(self.bpf, &[RecordType::KSYMBOL, RecordType::BPF_EVENT]);
        add(self.cgroup, &[RecordType::CGROUP]);
        add(self.text_poke, &[RecordType::TEXT_POKE]);
        types
    }
}
