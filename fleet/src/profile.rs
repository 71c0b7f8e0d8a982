//! Aggregates samples to a [`Profile`], for rprof's displays, exports and comparisons.

use std::collections::HashMap;

use datafusion::arrow::array::Array;
use rprof_fleet_table::Id;
use rprof_fleet_table::rows::FrameLine;
use rprof_profile::{
    Frame, FrameAddress, FrameId, Function, Line, Object, ObjectKind, Profile, ProfileBuilder,
    Quality, Reason, StackId, StackPosition, WeightUnit,
};
use rprof_symbols::BuildId;

use crate::FleetError;
use crate::engine::Fleet;
use crate::filter::Filter;
use crate::names::{Frames, Image, Names};
use crate::rows::{doubles, ids, integers, text, texts};

/// Column whose value becomes the root frame of each stack. Recordings of one machine use thread
/// names there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Root {
    /// Name of the service.
    #[default]
    Service,
    /// Version of the service.
    Version,
    /// Name of the host.
    Host,
    /// Name of the process.
    Comm,
    /// Name of the thread.
    Thread,
    /// No root frame.
    None,
}

impl Root {
    fn sql(self) -> &'static str {
        match self {
            Root::Service => "service",
            Root::Version => "coalesce(version, '[no version]')",
            Root::Host => "host",
            Root::Comm => "comm",
            Root::Thread => "thread",
            Root::None => "'all'",
        }
    }
}

/// Level of detail of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Functions, and whether they were inlined. All builds of an image share frames.
    Functions,
    /// Addresses with lines. Builds of an image have separate frames.
    Addresses,
}

/// Aggregated samples of one stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// Name of the event.
    pub event: String,
    /// `nanoseconds` or `events`.
    pub unit: String,
    /// Value of the [`Root`].
    pub root: String,
    /// Value of the group column, if any: see [`sums`].
    pub group: Option<String>,
    /// Id of the stack.
    pub stack: Id,
    /// Number of samples, scaled.
    pub samples: f64,
    /// Sum of weights, scaled.
    pub value: f64,
}

/// Queries the samples aggregated by stack, root, and optionally a further column or SQL
/// expression.
///
/// Adds integers separately for each scale, so that nothing is rounded if all scales are 1.
///
/// # Errors
/// The engine fails.
pub async fn sums(
    fleet: &Fleet,
    filter: &Filter,
    root: Root,
    group: Option<&str>,
) -> Result<Vec<Sum>, FleetError> {
    let by = group.unwrap_or("CAST(NULL AS VARCHAR)");
    let query = format!(
        "SELECT event, unit, {} AS root, {by} AS grouped, stack_id, scale, sum(samples) AS samples, sum(value) AS amount \
         FROM samples_files WHERE {} GROUP BY 1, 2, 3, 4, 5, 6",
        root.sql(),
        filter.sql(),
    );
    let mut sums = Vec::new();
    for batch in fleet.ask(&query).await? {
        let [events, units, roots, groups] =
            ["event", "unit", "root", "grouped"].map(|name| texts(&batch, name));
        let (events, units, roots, groups) = (events?, units?, roots?, groups?);
        let (stacks, scales) = (ids(&batch, "stack_id")?, doubles(&batch, "scale")?);
        let (samples, values) = (integers(&batch, "samples")?, integers(&batch, "amount")?);
        for (row, stack) in stacks.into_iter().enumerate() {
            let of = |column| text(column, row).unwrap_or_default().to_owned();
            // An invalid scale counts as 1.
            let scale = Some(scales[row])
                .filter(|scale| scale.is_finite() && *scale > 0.0)
                .unwrap_or(1.0);
            sums.push(Sum {
                event: of(&events),
                unit: of(&units),
                root: of(&roots),
                group: groups.is_valid(row).then(|| groups.value(row).to_owned()),
                stack,
                samples: samples.value(row) as f64 * scale,
                value: values.value(row) as f64 * scale,
            });
        }
    }
    // Engines return rows in any order. Sorting makes equal sums give equal profiles.
    sums.sort_by(|a, b| {
        let key = |sum: &Sum| (sum.event.clone(), sum.root.clone(), sum.stack);
        key(a).cmp(&key(b))
    });
    Ok(sums)
}

/// Queries all samples in a filter as one profile.
///
/// # Errors
/// The engine fails, or no sample matches.
pub async fn profile(
    fleet: &Fleet,
    filter: &Filter,
    root: Root,
    detail: Detail,
) -> Result<Profile, FleetError> {
    let sums = sums(fleet, filter, root, None).await?;
    if sums.is_empty() {
        return Err(no_samples(fleet, filter).await);
    }
    let names = Names::of(fleet, &filter.sql()).await?;
    let span = span(fleet, filter).await?;
    let mut profile = of_sums(&names, sums.iter(), detail);
    profile.source = fleet.store.base().to_string().into();
    profile.time = Some(span);
    profile.wall_time = Some(span);
    Ok(profile)
}

/// Returns the error for an empty result, with a list of existing services.
pub(crate) async fn no_samples(fleet: &Fleet, filter: &Filter) -> FleetError {
    let services = fleet
        .ask("SELECT DISTINCT service, version FROM samples_files ORDER BY 1, 2 LIMIT 20")
        .await;
    let mut known = Vec::new();
    for batch in services.unwrap_or_default() {
        let (Ok(services), Ok(versions)) = (texts(&batch, "service"), texts(&batch, "version"))
        else {
            continue;
        };
        known.extend((0..batch.num_rows()).map(|row| {
            let service = text(&services, row).unwrap_or_default();
            let name = match text(&versions, row) {
                Some(version) => format!("{service} {version}"),
                None => service.to_owned(),
            };
            rprof_export::CleanName::new(&name).into_owned()
        }));
    }
    FleetError::Nothing(match known.is_empty() {
        true => "there are no samples of that time".to_owned(),
        false => format!(
            "no sample fulfils {}; there are samples of {}",
            filter.sql(),
            known.join(", ")
        ),
    })
}

/// Queries the start of the first window and the end of the last, in nanoseconds since 1970.
async fn span(fleet: &Fleet, filter: &Filter) -> Result<(u64, u64), FleetError> {
    let query = format!(
        "SELECT min(CAST(window_start AS BIGINT)) AS first, max(CAST(window_start AS BIGINT) + window_us) AS last \
         FROM samples_files WHERE {}",
        filter.sql()
    );
    let mut span = (0, 0);
    for batch in fleet.ask(&query).await? {
        let (first, last) = (integers(&batch, "first")?, integers(&batch, "last")?);
        let nanoseconds = |micros: i64| u64::try_from(micros).unwrap_or(0).saturating_mul(1_000);
        if batch.num_rows() > 0 && first.is_valid(0) {
            span = (nanoseconds(first.value(0)), nanoseconds(last.value(0)));
        }
    }
    Ok(span)
}

/// Builds a profile from sums.
pub fn of_sums<'s>(names: &Names, sums: impl Iterator<Item = &'s Sum>, detail: Detail) -> Profile {
    let builder = match detail {
        Detail::Functions => ProfileBuilder::with_inlined(),
        Detail::Addresses => ProfileBuilder::with_addresses(),
    };
    let mut made = Maker {
        names,
        detail,
        builder,
        events: HashMap::new(),
        stacks: HashMap::new(),
        locations: HashMap::new(),
        lost_stacks: 0,
    };
    for sum in sums {
        made.add(sum);
    }
    let lost = made.lost_stacks;
    let mut profile = made.builder.finish();
    if lost > 0 {
        profile.quality.damaged = true;
        profile.quality.warnings.push(format!(
            "the frames of {lost} stacks are in no file that was read: their time stands as [stack is missing]"
        ));
    }
    profile
}

struct Maker<'n> {
    names: &'n Names,
    detail: Detail,
    builder: ProfileBuilder,
    events: HashMap<String, usize>,
    stacks: HashMap<Id, StackId>,
    /// Frames of locations, outermost first.
    locations: HashMap<Id, Vec<FrameId>>,
    lost_stacks: usize,
}

impl Maker<'_> {
    fn add(&mut self, sum: &Sum) {
        let event = match self.events.get(&sum.event) {
            Some(event) => *event,
            None => {
                let unit = match sum.unit == "nanoseconds" {
                    true => WeightUnit::Nanoseconds,
                    false => WeightUnit::of_event(&sum.event),
                };
                let event = self.builder.add_event(&sum.event, unit);
                self.events.insert(sum.event.clone(), event);
                event
            }
        };
        let thread = self.builder.intern_thread_name(&sum.root);
        let stack = self.stack(sum.stack);
        let whole = |amount: f64| amount.round() as u64;
        self.builder
            .add_samples(event, thread, stack, whole(sum.samples), whole(sum.value));
    }

    fn stack(&mut self, id: Id) -> StackId {
        if let Some(stack) = self.stacks.get(&id) {
            return *stack;
        }
        let names = self.names;
        let stack = match names.stacks.get(&id) {
            Some(locations) => {
                let mut frames = Vec::new();
                for location in locations.iter().rev() {
                    frames.extend_from_slice(self.location(*location));
                }
                self.builder.intern_stack(&frames)
            }
            None => {
                self.lost_stacks += 1;
                let object = self.builder.intern_object("[stack is missing]");
                let function = self
                    .builder
                    .intern_function(Ok("[stack is missing]"), object);
                let frame = self.builder.intern_frame(Frame::of(function));
                self.builder.intern_stack(&[frame])
            }
        };
        self.stacks.insert(id, stack);
        stack
    }

    fn location(&mut self, id: Id) -> &[FrameId] {
        if !self.locations.contains_key(&id) {
            let frames = self.frames(id);
            self.locations.insert(id, frames);
        }
        &self.locations[&id]
    }

    fn frames(&mut self, id: Id) -> Vec<FrameId> {
        let place = self.names.locations.get(&id);
        let image = place.and_then(|place| self.names.images.get(&place.image));
        let object = self.object(image);
        let unknown = Frames {
            rank: 0,
            calls: vec![FrameLine {
                function: None,
                file: None,
                line: None,
                inlined: false,
            }],
        };
        let found = self
            .names
            .frames
            .get(&id)
            .filter(|frames| !frames.calls.is_empty());
        let found = found.unwrap_or(&unknown);
        let reason = match image {
            Some(image) if image.symbols == "wanted" => Reason::Stripped,
            _ => Reason::NoSymbolAtAddress,
        };
        let address = place
            .and_then(|place| place.address)
            .map(i64::cast_unsigned);
        let calls = found.calls.iter().rev().enumerate();
        calls
            .map(|(depth, call)| {
                let function = self.builder.add_function(Function {
                    name: call.function.as_deref().map(Into::into).ok_or(reason),
                    object,
                    position: StackPosition::default(),
                    line: None,
                    // At rank 0, a name is only the start of the function.
                    located: (found.rank == 0 && call.function.is_some()).then_some(reason),
                    source: None,
                });
                let line = call
                    .line
                    .and_then(|line| u32::try_from(line).ok())
                    .zip(call.file.as_deref());
                let line = line.map(|(line, file)| Line {
                    file: self.builder.intern_file(file),
                    line,
                    column: 0,
                });
                let inline_depth = match self.detail {
                    Detail::Functions => u32::from(call.inlined),
                    Detail::Addresses => depth as u32,
                };
                self.builder.intern_frame(Frame {
                    address: address.map(FrameAddress::InstructionPointer),
                    line,
                    inline_depth,
                    ..Frame::of(function)
                })
            })
            .collect()
    }

    fn object(&mut self, image: Option<&Image>) -> rprof_profile::ObjectId {
        let Some(image) = image else {
            return self.builder.intern_object("[image is missing]");
        };
        let build_id = image.build_id.as_deref().and_then(BuildId::from_hex);
        self.builder.add_object(Object {
            name: image.path.as_str().into(),
            kind: match image.kind.as_str() {
                "kernel" => ObjectKind::Kernel,
                "jit" => ObjectKind::Jit,
                "waiting" => ObjectKind::Waiting,
                _ => ObjectKind::File,
            },
            build_id: build_id.filter(|_| self.detail == Detail::Addresses),
            runtime: None,
        })
    }
}

/// Adds the hosts' recording quality to a profile: lost records, and stacks that reach their root.
///
/// # Errors
/// The engine fails.
pub async fn add_quality(
    fleet: &Fleet,
    filter: &Filter,
    quality: &mut Quality,
) -> Result<(), FleetError> {
    let host = Filter {
        host: filter.host.clone(),
        hours: filter.hours,
        ..Filter::default()
    };
    let query = format!(
        "SELECT sum(lost) AS lost, sum(throttled) AS throttled, sum(samples) AS samples, sum(lost_windows) AS lost_windows \
         FROM hosts_files WHERE {}",
        host.sql()
    );
    for batch in fleet.ask(&query).await? {
        let of = |name| {
            integers(&batch, name).map(|column| {
                let value = (!column.is_empty() && column.is_valid(0)).then(|| column.value(0));
                value
                    .and_then(|value| u64::try_from(value).ok())
                    .unwrap_or(0)
            })
        };
        quality.lost = of("lost")?;
        quality.throttled = of("throttled")?;
        quality.recorded = of("samples")?;
        let windows = of("lost_windows")?;
        if windows > 0 {
            quality.warnings.push(format!(
                "hosts dropped {windows} windows before they could be kept"
            ));
        }
    }
    Ok(())
}
