//! [`Wakers`]: frames that tell who ended waits.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use rprof_processes::Timeline;
use rprof_profile::reasons::WAITING_FOR_CPU;
use rprof_profile::waits::{WAIT_OBJECT, WOKEN_BY_INTERRUPT, woken_by};
use rprof_profile::{Function, FunctionId, Object, ObjectId, ObjectKind, StackPosition};

use crate::comms::thread_name;
use crate::groups::{SampleGroup, WokenBy};
use crate::symbolize::Symbols;

/// Functions that stand for who ended a wait, by that.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    functions: FxHashMap<WokenBy, FunctionId>,
    /// The functions in the order of their ids.
    pub(super) in_order: Vec<FunctionId>,
}

/// Returns the object that reasons lie in.
fn object_of_waits(objects: &mut Vec<Object>) -> ObjectId {
    let known = (objects.iter()).position(|object| object.kind == ObjectKind::Waiting);
    let number = known.unwrap_or_else(|| {
        objects.push(Object {
            name: WAIT_OBJECT.into(),
            kind: ObjectKind::Waiting,
            build_id: None,
        });
        objects.len() - 1
    });
    ObjectId(number as u32)
}

impl Wakers {
    /// Adds a function for each of those that ended a wait of some groups.
    pub(super) fn add<'a>(
        groups: impl Iterator<Item = &'a SampleGroup>,
        timeline: &Timeline,
        symbols: &mut Symbols,
    ) -> Wakers {
        let mut wakers = Wakers::default();
        let mut by_name: FxHashMap<String, FunctionId> = FxHashMap::default();
        for woken in groups.map(|group| group.woken) {
            if woken == WokenBy::Unknown || wakers.functions.contains_key(&woken) {
                continue;
            }
            let name = match woken {
                WokenBy::Unknown | WokenBy::Awake => Cow::Borrowed(WAITING_FOR_CPU),
                WokenBy::Interrupt => Cow::Borrowed(WOKEN_BY_INTERRUPT),
                WokenBy::Thread(thread) => {
                    let name = thread.ok().and_then(|comm| timeline.comm_name(comm));
                    Cow::Owned(woken_by(&thread_name(name, thread.err().unwrap_or(-1))))
                }
            };
            let function = *by_name.entry(name.into_owned()).or_insert_with_key(|name| {
                symbols.functions.push(Function {
                    name: Ok(name.as_str().into()),
                    object: object_of_waits(&mut symbols.objects),
                    position: StackPosition::Inner,
                    line: None,
                    located: None,
                });
                let id = FunctionId(symbols.functions.len() as u32 - 1);
                wakers.in_order.push(id);
                id
            });
            wakers.functions.insert(woken, function);
        }
        wakers
    }

    /// Returns the function for what ended a wait, and its place among [`in_order`](Self::in_order).
    pub(super) fn find(&self, woken: WokenBy) -> Option<(FunctionId, u32)> {
        let function = *self.functions.get(&woken)?;
        let first = self.in_order.first()?;
        Some((function, function.0 - first.0))
    }
}
