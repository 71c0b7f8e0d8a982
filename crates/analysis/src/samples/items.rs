//! [`Item`]: samples and other records, in time order.

use std::iter::Peekable;

use crate::samples::lookup::record_at;
use crate::samples::side::{self, RecordView, SidePosition};
use crate::samples::store::SampleStore;
use crate::samples::view::SampleView;

/// Sample or other record of a recording.
#[derive(Debug)]
pub enum Item<'s> {
    /// Sample of any event, with its decoded fields.
    Sample(SampleView<'s>),
    /// Another record.
    Record(Box<RecordView<'s>>),
}

pub(super) fn merge<'s>(
    store: &'s SampleStore<'_>,
    side: &'s [SidePosition],
) -> impl Iterator<Item = Item<'s>> {
    Merge {
        store,
        rows: 0,
        side: side.iter().peekable(),
    }
}

struct Merge<'s, 'a> {
    store: &'s SampleStore<'a>,
    rows: usize,
    side: Peekable<std::slice::Iter<'s, SidePosition>>,
}

impl<'s> Iterator for Merge<'s, '_> {
    type Item = Item<'s>;

    fn next(&mut self) -> Option<Item<'s>> {
        let row = self.store.resolved.rows.get(self.rows);
        let is_before = |side: &&SidePosition| match row {
            Some(row) => (side.time, side.position) < (row.time, row.position),
            None => true,
        };
        while let Some(side) = self.side.next_if(is_before) {
            let index = &self.store.index;
            let raw = record_at(index, side.position);
            if let Some(view) = raw.and_then(|raw| side::view(index, &raw)) {
                return Some(Item::Record(Box::new(view)));
            }
        }
        row?;
        self.rows += 1;
        Some(Item::Sample(SampleView::of_row(self.store, self.rows - 1)))
    }
}
