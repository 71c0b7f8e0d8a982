//! [`WakerFrames`]: frames for the wakers of waits.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use rprof_processes::Timeline;
use rprof_profile::waits::reasons::WAITING_FOR_CPU;
use rprof_profile::waits::{WOKEN_BY_INTERRUPT, WOKEN_BY_UNNAMED, wait_object, woken_by};
use rprof_profile::{Function, FunctionId, StackPosition};

use crate::groups::{SampleGroup, WokenBy};
use crate::symbolize::Symbols;

#[derive(Debug, Default)]
pub(super) struct WakerFrames {
    functions: FxHashMap<WokenBy, FunctionId>,
    pub(super) in_order: Vec<FunctionId>,
}

impl WakerFrames {
    pub(super) fn add<'a>(
        groups: impl Iterator<Item = &'a SampleGroup>,
        timeline: &Timeline,
        symbols: &mut Symbols,
    ) -> WakerFrames {
        let mut wakers = WakerFrames::default();
        let mut by_name: FxHashMap<String, FunctionId> = FxHashMap::default();
        for woken in groups.map(|group| group.woken) {
            if woken == WokenBy::Unknown || wakers.functions.contains_key(&woken) {
                continue;
            }
            let name = match woken {
                WokenBy::Unknown | WokenBy::Awake => Cow::Borrowed(WAITING_FOR_CPU),
                WokenBy::Interrupt => Cow::Borrowed(WOKEN_BY_INTERRUPT),
                WokenBy::Thread(name) => {
                    let name = name.and_then(|comm| timeline.comm_name(comm));
                    match name.filter(|name| !name.is_empty()) {
                        Some(name) => Cow::Owned(woken_by(&String::from_utf8_lossy(name))),
                        None => Cow::Borrowed(WOKEN_BY_UNNAMED),
                    }
                }
            };
            let function = *by_name.entry(name.into_owned()).or_insert_with_key(|name| {
                symbols.functions.push(Function {
                    name: Ok(name.as_str().into()),
                    object: wait_object(&mut symbols.objects),
                    position: StackPosition::Inner,
                    line: None,
                    located: None,
                    source: None,
                });
                let id = FunctionId(symbols.functions.len() as u32 - 1);
                wakers.in_order.push(id);
                id
            });
            wakers.functions.insert(woken, function);
        }
        wakers
    }

    /// Returns the function of a waker, and its index in [`in_order`](Self::in_order).
    pub(super) fn find(&self, woken: WokenBy) -> Option<(FunctionId, u32)> {
        let function = *self.functions.get(&woken)?;
        let first = self.in_order.first()?;
        Some((function, function.0 - first.0))
    }
}
