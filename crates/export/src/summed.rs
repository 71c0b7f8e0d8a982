//! Samples summed up by thread name and stack, in an order that follows from names and addresses.

use std::collections::BTreeMap;

use rprof_profile::Profile;

use crate::locations::Locations;

/// Thread name, and the ranks of a stack's frames, root first.
pub(crate) type Key = (u32, Vec<u32>);

/// Sums samples up by thread name and stack, in an order that follows from names and addresses.
pub(crate) fn summed(
    profile: &Profile,
    locations: &Locations<'_>,
    events: &[usize],
) -> Vec<(Key, Vec<i64>)> {
    let mut sums: BTreeMap<Key, Vec<i64>> = BTreeMap::new();
    for entry in &profile.aggregated {
        let Some(event) = events.iter().position(|event| *event == entry.event) else {
            continue;
        };
        let frames = profile
            .frames(entry.stack)
            .map(|frame| locations.rank(frame));
        let key = (profile.thread(entry.thread).comm, frames.collect());
        let sum = sums.entry(key).or_insert_with(|| vec![0; 2 * events.len()]);
        for (at, more) in [(0, entry.samples), (1, entry.weight)] {
            let value = &mut sum[2 * event + at];
            *value = value.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    // By name, as numbers of names depend on who came first.
    sums.sort_by(|((a, _), _), ((b, _), _)| {
        profile.comms[*a as usize].cmp(&profile.comms[*b as usize])
    });
    sums
}
