//! What the threads of pass two found, each for itself, under common numbers of locations.

use crate::location::Location;
use crate::resolve::Resolved;
use crate::stacks::Locations;

/// What one of them found.
#[derive(Debug)]
pub(crate) struct Part {
    /// Without its locations.
    pub(crate) resolved: Resolved,
    /// By its own number of a location, the common one.
    pub(crate) locations: Vec<u32>,
}

/// What all of them found.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) locations: Locations,
    pub(crate) parts: Vec<Part>,
}

impl Parts {
    pub(crate) fn new(parts: Vec<Resolved>) -> Parts {
        let mut all = Parts::default();
        for mut resolved in parts {
            let own = std::mem::take(&mut resolved.locations);
            let numbers = |own: &[Location]| own.len() as u32;
            let locations = match all.parts.is_empty() {
                true => {
                    let count = numbers(own.as_slice());
                    all.locations = own;
                    (0..count).collect()
                }
                false => (own.as_slice().iter())
                    .map(|location| all.locations.intern(*location))
                    .collect(),
            };
            all.parts.push(Part {
                resolved,
                locations,
            });
        }
        all
    }

    /// For each location, in how many samples it is.
    pub(crate) fn samples_by_location(&self) -> Vec<u64> {
        let mut samples = vec![0; self.locations.as_slice().len()];
        for part in &self.parts {
            let stacks = &part.resolved.stacks;
            for (counted, amount) in part.resolved.counts.iter() {
                let callers = stacks.callers().get(counted.list);
                for own in callers.iter().copied().chain(counted.leaf()) {
                    samples[part.locations[own as usize] as usize] += amount.samples;
                }
            }
        }
        samples
    }
}
