//! Selection of fields, by kind of event.

use rprof_records::{Attr, EventKind};

use crate::fields::{FieldSet, OutputField};

use OutputField as F;

/// Number of event kinds, in the order of [`EventKind`]. The last is for all dynamic PMUs.
pub(crate) const KINDS: usize = 7;

pub(crate) fn kind_of(attr: &Attr) -> usize {
    (attr.kind.0 as usize).min(KINDS - 1)
}

/// perf's names of the kinds, used as prefixes of a list.
const KIND_NAMES: [(&str, &[usize]); 5] = [
    ("hw", &[0, 3]),
    ("sw", &[1]),
    ("trace", &[2]),
    ("raw", &[4]),
    ("break", &[5]),
];

fn default_of(kind: usize) -> FieldSet {
    let common = [F::Comm, F::Tid, F::Cpu, F::Time, F::Event];
    let code = [F::Period, F::Ip, F::Sym, F::SymOff, F::Dso];
    let memory = [
        F::Addr,
        F::DataSrc,
        F::Weight,
        F::InsLat,
        F::PhysAddr,
        F::DataPageSize,
        F::CodePageSize,
    ];
    let more: &[OutputField] = match EventKind(kind as u32) {
        EventKind::TRACEPOINT => &[F::Trace],
        EventKind::SOFTWARE => &[F::BpfOutput],
        EventKind::RAW => &memory,
        _ => &[],
    };
    let code = match kind == EventKind::TRACEPOINT.0 as usize {
        true => &[][..],
        false => &code[..],
    };
    (common.iter().chain(code).chain(more)).copied().collect()
}

/// Fields of each kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelection {
    pub(crate) shown: [FieldSet; KINDS],
    /// Explicitly requested fields: an error if samples lack them.
    pub(crate) asked: [FieldSet; KINDS],
    /// Kinds whose fields the user changed.
    pub(crate) chosen: [bool; KINDS],
}

impl Default for FieldSelection {
    fn default() -> Self {
        FieldSelection {
            shown: std::array::from_fn(default_of),
            asked: [FieldSet::default(); KINDS],
            chosen: [false; KINDS],
        }
    }
}

/// Field list of the command line: `comm,ip`, `+addr,-dso`, `trace:comm,trace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldList {
    kinds: Vec<usize>,
    /// True if the list replaces the previous fields.
    replaces: bool,
    changes: Vec<(bool, OutputField)>,
}

impl FieldList {
    /// Parses a list in the syntax of `perf script -F`.
    ///
    /// # Errors
    /// Returns a message for the user.
    pub fn parse(text: &str) -> Result<FieldList, String> {
        let (kinds, list) = match text.split_once(':') {
            None => ((0..KINDS).collect(), text),
            Some((kind, list)) => match KIND_NAMES.iter().find(|k| k.0 == kind.trim()) {
                Some((_, kinds)) => (kinds.to_vec(), list),
                None => {
                    let names: Vec<&str> = KIND_NAMES.iter().map(|k| k.0).collect();
                    return Err(format!(
                        "unknown event type {kind:?}; valid types: {}",
                        names.join(", ")
                    ));
                }
            },
        };
        let items: Vec<&str> = (list.split(','))
            .map(str::trim)
            .filter(|i| !i.is_empty())
            .collect();
        if items.is_empty() && !text.contains(':') {
            return Err(format!(
                "no field is given; valid fields: {}",
                valid_fields()
            ));
        }
        let is_change = |item: &&str| item.starts_with(['+', '-']);
        let changing = items.iter().filter(|i| is_change(i)).count();
        // `+a,b` adds both. `a,+b` is contradictory.
        let replaces = !items.first().is_some_and(is_change);
        if replaces && changing > 0 {
            return Err(
                "+field and -field change the default set and cannot follow a plain field".into(),
            );
        }
        let mut changes = Vec::new();
        let mut adds = true;
        for item in items {
            let name = match item.strip_prefix('+') {
                Some(name) => {
                    adds = true;
                    name
                }
                None => match item.strip_prefix('-') {
                    Some(name) => {
                        adds = false;
                        name
                    }
                    None => item,
                },
            };
            changes.push((adds, field(name)?));
        }
        Ok(FieldList {
            kinds,
            replaces,
            changes,
        })
    }
}

fn field(name: &str) -> Result<OutputField, String> {
    let unknown = || format!("unknown field {name:?}; valid fields: {}", valid_fields());
    OutputField::by_name(name).ok_or_else(unknown)
}

fn valid_fields() -> String {
    OutputField::names().collect::<Vec<_>>().join(", ")
}

impl FieldSelection {
    /// Applies a list.
    pub fn apply(&mut self, list: &FieldList) {
        for kind in &list.kinds {
            let (shown, asked) = (&mut self.shown[*kind], &mut self.asked[*kind]);
            if list.replaces {
                (*shown, *asked) = (FieldSet::default(), FieldSet::default());
            }
            for (add, field) in &list.changes {
                match add {
                    true => {
                        shown.add(*field);
                        asked.add(*field);
                    }
                    false => {
                        shown.remove(*field);
                        asked.remove(*field);
                    }
                }
            }
            self.chosen[*kind] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let of = |texts: &[&str]| {
            let mut selection = FieldSelection::default();
            for text in texts {
                selection.apply(&FieldList::parse(text).unwrap());
            }
            let names = |kind: usize| {
                let names: Vec<_> = selection.shown[kind]
                    .iter()
                    .map(OutputField::name)
                    .collect();
                names.join(",")
            };
            (names(1), names(2))
        };
        let software = "comm,tid,time,cpu,event,period,ip,sym,symoff,dso,bpf-output";
        let tracepoint = "comm,tid,time,cpu,event,trace";
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of(&[]), both(software, tracepoint));
        assert_eq!(of(&["ip,comm"]), both("comm,ip", "comm,ip"));
        assert_eq!(of(&["trace:ip"]), both(software, "ip"));
        assert_eq!(
            of(&["-tid,-symoff,+addr"]),
            both(
                "comm,time,cpu,event,period,ip,sym,dso,addr,bpf-output",
                "comm,time,cpu,event,trace,addr"
            )
        );
        assert_eq!(
            of(&["sw:comm", "+misc"]),
            both("comm,misc", &format!("{tracepoint},misc"))
        );
        for bad in ["foo", "comm,+ip", "x:comm", "srclines", "+"] {
            assert!(FieldList::parse(bad).is_err(), "{bad}");
        }
    }
}
