//! Parser for `rprof report --format json`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::run::Run;

pub(crate) struct Report {
    pub(crate) events: Vec<Event>,
    /// Lost records, throttling, stacks and so on.
    pub(crate) quality: Value,
}

pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) weight: u64,
    pub(crate) samples: u64,
    pub(crate) lost: u64,
    pub(crate) rows: Vec<Row>,
}

/// Names are empty if rows are not grouped by them.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) symbol: String,
    pub(crate) object: String,
    pub(crate) comm: String,
    pub(crate) own: u64,
    pub(crate) total: u64,
    pub(crate) self_samples: u64,
}

impl Report {
    /// Parses the report of a filter. Without samples rprof fails, and the result is empty.
    pub(crate) fn of_selection(run: &Run) -> Report {
        let is_empty = run.code() == Some(1) && run.err().contains("the filters leave no sample");
        match is_empty {
            true => Report::without_events(),
            false => Report::parse(run.exits(0)),
        }
    }

    /// Returns an empty report: rprof rejects empty recordings.
    pub(crate) fn without_events() -> Report {
        Report {
            events: Vec::new(),
            quality: Value::Null,
        }
    }

    pub(crate) fn parse(run: &Run) -> Report {
        let parsed: Result<Value, _> = serde_json::from_slice(run.bytes());
        let json = parsed.unwrap_or_else(|e| panic!("{e} in the JSON of\n{run}"));
        assert_eq!(json["version"], 1, "version of\n{run}");
        let events = json["events"].as_array().expect("events");
        Report {
            events: events.iter().map(Event::parse).collect(),
            quality: json["quality"].clone(),
        }
    }

    pub(crate) fn only(&self) -> &Event {
        let names: Vec<_> = self.events.iter().map(|e| &e.name).collect();
        assert_eq!(self.events.len(), 1, "one event was expected: {names:?}");
        &self.events[0]
    }

    pub(crate) fn samples(&self) -> u64 {
        self.events.iter().map(|e| e.samples).sum()
    }
}

impl Event {
    fn parse(json: &Value) -> Event {
        Event {
            name: text(&json["name"]),
            weight: number(&json["weight_total"]),
            samples: number(&json["samples"]),
            lost: number(&json["lost"]),
            rows: (json["rows"].as_array().expect("rows").iter())
                .map(|row| Row {
                    symbol: text(&row["symbol"]),
                    object: text(&row["object"]),
                    comm: text(&row["comm"]),
                    own: number(&row["self"]),
                    total: row["total"].as_u64().unwrap_or(0),
                    self_samples: number(&row["self_samples"]),
                })
                .collect(),
        }
    }

    pub(crate) fn self_samples(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.self_samples > 0) {
            *sums.entry(row.symbol.clone()).or_default() += row.self_samples;
        }
        sums
    }

    pub(crate) fn self_share(&self, symbol: &str) -> f64 {
        self.share(symbol, |row| row.own)
    }

    pub(crate) fn total_share(&self, symbol: &str) -> f64 {
        self.share(symbol, |row| row.total)
    }

    fn share(&self, symbol: &str, weight: fn(&Row) -> u64) -> f64 {
        let rows = self.rows.iter().filter(|row| row.symbol == symbol);
        rows.map(weight).sum::<u64>() as f64 / self.weight as f64
    }

    pub(crate) fn row(&self, symbol: &str) -> &Row {
        let found = self.rows.iter().find(|row| row.symbol == symbol);
        found.unwrap_or_else(|| {
            let names: Vec<_> = self.rows.iter().map(|r| &r.symbol).collect();
            panic!("no {symbol:?} among {names:#?}")
        })
    }
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().into()
}

fn number(json: &Value) -> u64 {
    json.as_u64()
        .unwrap_or_else(|| panic!("{json} is not a number"))
}
