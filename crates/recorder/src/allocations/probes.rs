//! [`Probes`]: allocations that programs sample and report themselves.

use std::num::NonZeroU64;

use rprof_memory::Sampled;
use rprof_records::{Endian, Misc, RecordType, Sample, SampleLayout};
use rprof_sampler::{EventIds, Stream};
use rustc_hash::FxHashMap;

use crate::described::Rewriting;
use crate::pipeline::merge::Released;

/// Offset of the first argument in the payload of a uprobe: after the common fields of a tracepoint
/// and the address of the probe.
const ARGUMENTS: usize = 16;

/// Message of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A sampled allocation: address, size, and the bytes that it stands for.
    Allocation,
    /// The release of a sampled allocation: address.
    Release,
}

/// Probe of a program: an event of tracefs (`uprobe_events`) whose payload has its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationProbe {
    /// Message of the probe.
    pub kind: ProbeKind,
    /// Name of the event, such as `group:name`.
    pub event: String,
    /// Sizes of the arguments in bytes, in order: 1, 2, 4 or 8.
    pub widths: Vec<usize>,
}

/// Arguments of a probe. They come from the memory of the target, and may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    Allocated { address: u64, sampled: Sampled },
    Freed { address: u64 },
}

impl AllocationProbe {
    /// Decodes a payload; `None` if it is too short.
    fn decode(&self, payload: &[u8]) -> Option<Reported> {
        let mut at = ARGUMENTS;
        let mut arguments = self.widths.iter().map_while(|width| {
            let bytes = payload.get(at..)?.get(..*width)?;
            at += width;
            let mut word = [0; 8];
            // A uprobe exists on machines of both byte orders, rprof on little-endian ones.
            word.get_mut(..*width)?.copy_from_slice(bytes);
            Some(u64::from_le_bytes(word))
        });
        let address = arguments.next()?;
        Some(match self.kind {
            ProbeKind::Release => Reported::Freed { address },
            ProbeKind::Allocation => Reported::Allocated {
                address,
                sampled: Sampled {
                    bytes: arguments.next()?,
                    weight: Some(NonZeroU64::new(arguments.next()?)?),
                },
            },
        })
    }
}

/// Probes of the recorded programs, by event id.
#[derive(Debug)]
pub(super) struct Probes {
    probes: Vec<(AllocationProbe, SampleLayout)>,
    by_id: FxHashMap<u64, usize>,
}

impl Probes {
    /// Finds the events of the probes.
    pub(super) fn of(
        events: &[EventIds],
        rewriting: Rewriting,
        probes: Vec<AllocationProbe>,
    ) -> Probes {
        let mut found = Probes {
            probes: Vec::new(),
            by_id: FxHashMap::default(),
        };
        for probe in probes {
            // Modifiers and settings follow the name.
            let is_its = |event: &&EventIds| {
                let rest = event.name.strip_prefix(&*probe.event);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
            };
            if let Some(event) = events.iter().find(is_its) {
                let attr = rewriting.unwound(&event.attr);
                let ids = event.ids.iter().map(|id| (*id, found.probes.len()));
                found.by_id.extend(ids);
                let layout = SampleLayout::new(&attr, Endian::NATIVE);
                found.probes.push((probe, layout));
            }
        }
        found
    }

    pub(super) fn count(&self) -> u64 {
        self.probes.len() as u64
    }

    /// Decodes the sample of a probe; `None` for other records.
    pub(super) fn read<'a>(
        &'a self,
        released: &Released<'a>,
    ) -> Option<(Misc, Sample<'a>, Option<Reported>)> {
        if released.stream != Stream::Samples {
            return None;
        }
        // LOST records begin with an id, too.
        let raw = (released.raw()).filter(|raw| raw.kind == RecordType::SAMPLE)?;
        let id = raw.body.u64(0, Endian::NATIVE)?;
        let (probe, layout) = self.probes.get(*self.by_id.get(&id)?)?;
        let sample = Sample::parse(raw.body, layout).ok()?;
        let reported = sample
            .raw()
            .and_then(|payload| probe.decode(&payload.to_cow()));
        Some((raw.misc, sample, reported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(kind: ProbeKind, widths: &[usize]) -> AllocationProbe {
        AllocationProbe {
            kind,
            event: "rprof_1:alloc0".to_owned(),
            widths: widths.to_vec(),
        }
    }

    #[test]
    fn arguments_of_any_size_are_decoded_and_short_payloads_are_not() {
        let mut payload = vec![0xff; ARGUMENTS];
        payload.extend(0x7f00_1234_5678u64.to_le_bytes());
        payload.extend(100u32.to_le_bytes());
        payload.extend(524_288u64.to_le_bytes());
        let allocation = probe(ProbeKind::Allocation, &[8, 4, 8]);
        let sampled = Sampled {
            bytes: 100,
            weight: NonZeroU64::new(524_288),
        };
        let address = 0x7f00_1234_5678;
        assert_eq!(
            allocation.decode(&payload),
            Some(Reported::Allocated { address, sampled })
        );
        for cut in 0..payload.len() {
            assert_eq!(allocation.decode(&payload[..cut]), None, "{cut}");
        }
        let release = probe(ProbeKind::Release, &[8]);
        assert_eq!(release.decode(&payload), Some(Reported::Freed { address }));
        assert_eq!(probe(ProbeKind::Release, &[]).decode(&payload), None);
        assert_eq!(probe(ProbeKind::Release, &[9]).decode(&payload), None);
    }
}
