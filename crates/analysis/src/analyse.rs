//! [`analyse`]: runs the passes in order.

use rprof_perfdata::PerfData;
use rprof_profile::Profile;
use rprof_profile::waits::idle::IDLE;
use rprof_profile::waits::reasons::is_reason;
use rprof_profile::waits::{WAITS, is_of_waits};
use rprof_symbols::Symbolizer;

use crate::assemble::assemble;
use crate::caches::canonical::may_want_bounds;
use crate::code::CodeImages;
use crate::latency::{LatencyOptions, Timelines};
use crate::memory_over_time::OverTime;
use crate::options::{Options, PassOptions, SampleRows, SymbolOptions};
use crate::requests::RequestTimes;
use crate::sample_pass::resolve_in_parts;
use crate::sample_pass::results::WorkerResults;
use crate::sideband_pass::Index;
use crate::symbolize::{Symbols, symbolize};
use crate::warnings::warnings;

/// Analyses a recording into a profile.
///
/// Damage is not an error: the records before it are analysed, with
/// [warnings](rprof_profile::Quality::warnings).
pub fn analyse(data: &PerfData, symbolizer: &Symbolizer, options: &Options) -> Profile {
    analyse_with_code(data, symbolizer, options).0
}

/// Analyses a recording like [`analyse`], and also returns the images with the functions' code.
pub fn analyse_with_code<'a>(
    data: &'a PerfData,
    symbolizer: &Symbolizer,
    options: &Options,
) -> (Profile, CodeImages<'a>) {
    let mut options = options.clone();
    let folds_idle = choose_waits(data, &mut options);
    let over_time = OverTime::choose(data, &mut options);
    let Passes {
        index,
        parts,
        symbols,
        requests,
    } = run_passes(data, symbolizer, &mut options);
    let options = &options;
    let faults = parts.parts.iter().map(|part| part.resolved.faults).sum();
    let warnings = warnings(&index, symbolizer, faults, &options.filter);
    let without = requests
        .as_ref()
        .and_then(RequestTimes::warning)
        .map(str::to_owned);
    let mut profile = assemble(&index, symbolizer, (parts, symbols, requests), options);
    (profile.quality.warnings).extend(without);
    (profile.quality.warnings).extend(warnings);
    let refused = symbolizer.refused_vmlinux();
    (profile.quality.warnings).extend(refused.map(ToString::to_string));
    over_time.settle(&mut profile);
    profile.name_waits();
    if folds_idle {
        profile.fold_idle();
    }
    if !options.filter.reasons.is_empty() {
        profile.retain_reasons(&options.filter.reasons);
    }
    if let (true, Some(waits)) = (options.waits.alone, profile.waits()) {
        profile.retain_event(waits);
    }
    if options.latency {
        profile.mark_latency();
    }
    (profile, CodeImages::new(index, symbolizer.has_root()))
}

/// Adapts the options to the waits in the recording. Returns true to fold idle threads.
fn choose_waits(data: &PerfData, options: &mut Options) -> bool {
    let wants_waits = options.waits.alone || options.filter.wants_event(WAITS);
    let has_waits = wants_waits
        && data
            .events()
            .list()
            .iter()
            .any(|event| is_of_waits(&event.name));
    // The kernel callers tell the reason of a wait.
    options.leaves_only &= !has_waits;
    // The block hides the reasons of idle threads.
    let reasons = &options.filter.reasons;
    let shows_idle = reasons.is_empty() || reasons.iter().any(|reason| is_reason(reason, IDLE));
    let folds_idle = options.waits.fold_idle
        && shows_idle
        && !options.latency
        && has_waits
        && !options.filter.is_by_stack();
    options.by_thread |= folds_idle;
    if options.waits.alone {
        options.filter.events = match folds_idle {
            // Other events show which threads are idle.
            true => Vec::new(),
            false => vec![WAITS.to_owned()],
        };
    }
    folds_idle
}

struct Passes<'a> {
    index: Index<'a>,
    parts: WorkerResults,
    symbols: Symbols,
    requests: Option<RequestTimes>,
}

/// Runs the passes. [Callers](Options::leaves_only) stay if the code of an interpreter may work for
/// one of them.
fn run_passes<'a>(
    data: &'a PerfData,
    symbolizer: &Symbolizer,
    options: &mut Options,
) -> Passes<'a> {
    let n = options.thread_count();
    std::thread::scope(|scope| {
        // Loading kernel symbols takes longer than pass one.
        let mut is_wanted = n > 1 && !options.filter.is_by_sample();
        let bounds = may_want_bounds(data);
        let index = Index::build_with(data, &symbolizer.memory().strangers, || {
            if std::mem::take(&mut is_wanted) {
                let thread = std::thread::Builder::new().name("rprof-kernel".into());
                // Without a thread, the first lookup loads the symbols.
                let ahead = symbolizer.prefetch_kernel();
                drop(thread.spawn_scoped(scope, move || ahead.load(bounds)));
            }
        });
        options.leaves_only &= !(options.by_language && index.may_fold());
        let options = &*options;
        let pass = PassOptions {
            by_thread: options.by_thread,
            leaves_only: options.leaves_only,
            rows: match options.columns || options.streams {
                true => SampleRows::Compact,
                false => SampleRows::None,
            },
            addresses: options.addresses,
        };
        let needs_timelines = options.latency || !options.filter.parallelism.is_empty();
        let timelines = needs_timelines.then(|| Timelines::of(&index));
        let latency = LatencyOptions {
            timelines: timelines.as_ref(),
            divides: options.latency,
            parallelism: &options.filter.parallelism,
        };
        let requests = RequestTimes::of(
            &index,
            &options.filter,
            (options.by_request.as_ref(), options.request_ids),
        );
        let filter = (&options.filter, latency, requests.as_ref());
        let parts = resolve_in_parts(&index, symbolizer, filter, pass, n);
        let parts = WorkerResults::new(parts);
        let locations = parts.locations.as_slice();
        let heat = || parts.samples_by_location();
        let names = SymbolOptions {
            by_line: options.by_line,
            by_build_id: options.addresses,
            threads: n,
        };
        let detailed: &[String] = match options.details_of_filter {
            true => &options.filter.objects,
            false => &[],
        };
        let symbols = symbolize(&index, locations, heat, symbolizer, names, detailed);
        Passes {
            index,
            parts,
            symbols,
            requests,
        }
    })
}
