//! [`analyse`]: runs the passes one after the other.

use rprof_perfdata::PerfData;
use rprof_profile::Profile;
use rprof_symbols::Symbolizer;

use crate::assemble::assemble;
use crate::code::CodeImages;
use crate::options::{Options, PassOptions, SymbolOptions};
use crate::sample_pass::resolve_in_parts;
use crate::sample_pass::results::WorkerResults;
use crate::sideband_pass::Index;
use crate::symbolize::symbolize;
use crate::warnings::warnings;

/// Analyses a recording into a profile.
///
/// Damage is no error: the records before it are analysed, and
/// [`Quality::warnings`](rprof_profile::Quality::warnings) has a sentence on it.
pub fn analyse(data: &PerfData, symbolizer: &Symbolizer, options: &Options) -> Profile {
    analyse_with_code(data, symbolizer, options).0
}

/// Analyses a recording as [`analyse`] does, and returns where the code of the functions is as well.
pub fn analyse_with_code<'a>(
    data: &'a PerfData,
    symbolizer: &Symbolizer,
    options: &Options,
) -> (Profile, CodeImages<'a>) {
    let n = options.thread_count();
    let pass = PassOptions {
        by_thread: options.by_thread,
        leaves_only: options.leaves_only,
        per_sample: options.columns,
        addresses: options.addresses,
    };
    let (index, parts, symbols) = std::thread::scope(|scope| {
        // Loading the kernel's symbols takes longer than pass one, and depends on nothing.
        let mut is_wanted = n > 1 && !options.filter.is_by_sample();
        let index = Index::build_with(data, &symbolizer.memory().strangers, || {
            if std::mem::take(&mut is_wanted) {
                let thread = std::thread::Builder::new().name("rprof-kernel".into());
                // Without a thread, the first lookup loads the symbols.
                let ahead = symbolizer.prefetch_kernel();
                drop(thread.spawn_scoped(scope, || ahead.load()));
            }
        });
        let parts = resolve_in_parts(&index, symbolizer, &options.filter, pass, n);
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
        (index, parts, symbols)
    });
    let unreadable = parts.parts.iter().map(|part| part.resolved.unreadable);
    let warnings = warnings(&index, symbolizer, unreadable.sum(), &options.filter);
    let mut profile = assemble(&index, parts, symbols, options);
    (profile.quality.warnings).extend(warnings);
    let refused = symbolizer.refused_vmlinux();
    (profile.quality.warnings).extend(refused.map(ToString::to_string));
    profile.name_waits();
    (profile, CodeImages::new(index, symbolizer.has_root()))
}
