//! [`Markers`]: gaps in the samples.

use std::io;

use rprof_profile::{Gap, GapCause};
use serde_json::{Value, json};

use super::Json;
use super::tables::Tables;

const LOST: &str = "LostRecords";

const THROTTLED: &str = "Throttled";

/// Phase of an instant marker (`MarkerPhase` of Gecko).
const INSTANT: u32 = 0;

pub(super) struct Markers<'p> {
    gaps: &'p [Gap],
    origin: u64,
    lost: u32,
    throttled: u32,
}

impl<'p> Markers<'p> {
    pub(super) fn new(gaps: &'p [Gap], origin: u64, tables: &mut Tables<'_>) -> Markers<'p> {
        let (mut lost, mut throttled) = (0, 0);
        if !gaps.is_empty() {
            (lost, throttled) = (tables.string("Records lost"), tables.string(THROTTLED));
        }
        Markers {
            gaps,
            origin,
            lost,
            throttled,
        }
    }

    pub(super) fn write(&self, json: &mut Json<'_>) -> io::Result<()> {
        json.begin()?;
        json.column("data", self.gaps.iter().map(data))?;
        let names = self.gaps.iter().map(|gap| match gap.cause {
            GapCause::Throttled => self.throttled,
            _ => self.lost,
        });
        json.column("name", names)?;
        let times = self.gaps.iter();
        let times = times.map(|gap| gap.time.saturating_sub(self.origin) as f64 / 1e6);
        json.column("startTime", times)?;
        let count = self.gaps.len();
        json.column("endTime", std::iter::repeat_n((), count))?;
        json.column("phase", std::iter::repeat_n(INSTANT, count))?;
        json.column("category", std::iter::repeat_n(0, count))?;
        json.value("length", &count)?;
        json.end()
    }
}

fn data(gap: &Gap) -> Value {
    let cpu = gap.cpu.map(|cpu| cpu.to_string()).unwrap_or_default();
    match gap.cause {
        GapCause::Lost(records) => json!({"type": LOST, "records": records, "cpu": cpu}),
        _ => json!({"type": THROTTLED, "cpu": cpu}),
    }
}

pub(super) fn schema() -> Value {
    let display = ["marker-chart", "marker-table", "timeline-overview"];
    let cpu = json!({"key": "cpu", "label": "CPU", "format": "string"});
    json!([
        {
            "name": LOST,
            "tooltipLabel": "{marker.data.records} records lost",
            "tableLabel": "{marker.data.records} records lost",
            "display": display,
            "fields": [{"key": "records", "label": "Records", "format": "integer"}, cpu],
        },
        {
            "name": THROTTLED,
            "tooltipLabel": "The kernel throttled sampling",
            "tableLabel": "The kernel throttled sampling",
            "display": display,
            "fields": [cpu],
        },
    ])
}
