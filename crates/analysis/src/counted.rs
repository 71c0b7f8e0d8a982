//! Counter totals from a recording's private notes (`stat.event.*`).

use rprof_profile::RecordingCount;

/// Maximum number of counters read.
const LIMIT: usize = 256;

pub(crate) fn counted(notes: &[(String, String)]) -> Vec<RecordingCount> {
    let counts = notes.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("stat.event.")?;
        let (value, share) = value.split_once(' ')?;
        Some(RecordingCount {
            name: name.to_owned(),
            value: value.parse().ok()?,
            is_exact: share.parse::<f64>().ok()? >= 1.0,
        })
    });
    counts.take(LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_value_and_a_share() {
        let note = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let notes = [
            note("stat.event.task-clock", "120 1.0000"),
            note("stat.event.cycles", "99 0.3100"),
            note("stat.event.starved", "unknown 0.0100"),
            note("stat.event.broken", "7"),
            note("stat.wall.ns", "3"),
        ];
        let found = counted(&notes);
        let found: Vec<_> = found
            .iter()
            .map(|c| (&c.name[..], c.value, c.is_exact))
            .collect();
        assert_eq!(found, [("task-clock", 120, true), ("cycles", 99, false)]);
    }
}
