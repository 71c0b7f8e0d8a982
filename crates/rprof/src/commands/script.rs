//! `rprof script`.

use rprof_analysis::Samples;
use rprof_script::{FieldSelection, Script, ScriptOptions, SideRecords};

use crate::Outcome;
use crate::cli::ScriptArgs;
use crate::input::nothing_found;
use crate::input::recordings::{check_events, check_latency, check_requests, open};
use crate::terminal::pager::show;
use crate::wording::messages::{Failure, say};

impl ScriptArgs {
    fn options(&self) -> ScriptOptions {
        let mut fields = FieldSelection::default();
        for list in &self.fields {
            fields.apply(list);
        }
        ScriptOptions {
            fields,
            nanoseconds: self.ns,
            max_stack: self.max_stack.map_or(0, |most| most as usize),
            hide_callchains: self.hide_call_graph,
            side: SideRecords {
                lost: self.show_lost_events,
                mmap: self.show_mmap_events,
                task: self.show_task_events,
                switch: self.show_switch_events,
                read: self.show_thread_counts,
                aux: self.show_aux_events,
                namespaces: self.show_namespace_events,
                bpf: self.show_bpf_events,
                cgroup: self.show_cgroup_events,
                text_poke: self.show_text_poke_events,
            },
        }
    }
}

pub(crate) fn run(args: &ScriptArgs) -> Outcome {
    if args.input.filter.weight.is_some() {
        let message = "--weight does not apply to script, which prints single samples: print their \
            periods with `-F +period`, or use `rprof report`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    if args.input.filter.latency {
        let message = "--latency does not apply to script, which prints single samples: select \
            them with --parallelism, or use `rprof report --latency`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    if !args.input.filter.callers.is_empty() {
        let message = "--callers does not apply to script, which prints whole stacks: select \
            stacks with --focus, or use `rprof report --callers`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let paths = args.input.paths();
    let [path] = &*paths else {
        let message = "script prints one recording only, as times of two recordings do not \
            compare: give one FILE, or merge them with `rprof report`, `rprof collapse` or `rprof \
            flamegraph`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    };
    let data = open(path)?;
    check_events(&data, &args.input.event)?;
    check_latency(&data, &args.input.filter)?;
    let options = args.options();
    let script = Script::new(&data, &options)?;
    let names = &args.input.filter.symbols;
    let downloads = names.downloads(args.input.quiet)?;
    let (lines, located) = (script.shows_lines(), names.located);
    let symbolizer = names.symbolizer_builder(lines, located, downloads.as_ref());
    // As in perf: addresses tell equal names apart.
    let symbolizer = symbolizer.tells_apart(false).build();
    let filter = args.input.filter.filter(&args.input.event);
    let filter = args.input.filter.with_times_of(&filter, &data)?;
    check_requests(
        &data,
        &rprof_analysis::Options {
            filter: filter.clone(),
            ..rprof_analysis::Options::default()
        },
    )?;
    let samples = Samples::read_with(&data, &symbolizer, &filter, &script.details());
    if let Some(downloads) = downloads {
        downloads.print_summary();
    }
    // Side records may be the purpose.
    let is_empty = samples.iter().next().is_none() && options.side == SideRecords::default();
    let by_filters =
        || nothing_found::by_filters(&paths, &args.input.filter, &filter, samples.warnings());
    if let Some(failure) = is_empty.then(by_filters).flatten() {
        return Err(failure);
    }
    if !args.input.quiet {
        let refused = symbolizer.refused_vmlinux().map(ToString::to_string);
        for warning in samples.warnings().iter().chain(&refused) {
            say(format_args!("warning: {warning}"));
        }
    }
    if is_empty {
        return Err(nothing_found::without_samples(&paths));
    }
    show(|out| Ok(script.write(&samples, out)?))?;
    Ok(0)
}
