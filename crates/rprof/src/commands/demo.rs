//! `rprof demo`: records a built-in program with known shares.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use rprof_analysis::{Options, analyse};
use rprof_export::rows::percent;
use rprof_export::svg::SvgOptions;
use rprof_export::table;
use rprof_export::{ReportOptions, RowOptions};
use rprof_profile::{Keys, Profile, TopFunctions, WeighBy};
use rprof_sampler::Session;
use rprof_symbols::Symbolizer;

use crate::Outcome;
use crate::cli::{Color, DUMP_BYTES, DemoArgs};
use crate::commands::drawing::temporary;
use crate::commands::flamegraph::draw_to;
use crate::commands::workload::SHARES;
use crate::input::recordings::open;
use crate::recording::end::Times;
use crate::recording::session::{Destination, Job, record};
use crate::recording::summary::print_summary;
use crate::terminal;
use crate::terminal::output::{Output, write_to};
use crate::terminal::wants_color;
use crate::wording::messages::say;
use crate::wording::remedies;

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let output = Output::prepare(&args.output)?;
    let unnamed = temporary()?;
    let program = std::env::current_exe().context("cannot find rprof's own program file")?;
    let command: Vec<OsString> = vec![
        program.into(),
        "demo-workload".into(),
        args.seconds.to_string().into(),
    ];
    say("recording a demo program with two threads, as `rprof record -F 999 -- PROGRAM` does");
    let builder = (Session::builder().frequency(999).callchains(true))
        .user_stack(Some(DUMP_BYTES))
        .fit_user_stack(true);
    let recorded = record(Job {
        builder,
        command,
        to: Destination::unnamed(unnamed.handle()?),
        times: Times::default(),
        quiet: false,
        verbose: false,
        prints_summary: false,
        unwinds: true,
        least_wait: None,
        switch_budget: None,
        memory: false,
        allocations: None,
        remarks: Vec::new(),
        runtimes: None,
    })?;
    let mut summary = recorded.summary?;
    if recorded.status != 0 {
        return Ok(recorded.status);
    }
    summary.path = "a temporary file".into();
    print_summary(&summary, None);
    // Shares belong to whole functions.
    let symbolizer = Symbolizer::builder()
        .inlines(false)
        .lines(false)
        .locates(true)
        .build();
    let profile = analyse(&open(&unnamed.path())?, &symbolizer, &Options::default());
    write_to(Path::new("-"), |out| {
        let options = ReportOptions {
            rows: RowOptions {
                percent_limit: 0.5,
                limit: Some(20),
                ..RowOptions::default()
            },
            color: wants_color(Color::Auto),
            width: terminal::width(),
            wording: remedies::of_finding,
            ..ReportOptions::default()
        };
        table::write(&profile, &options, out)?;
        write_shares(&profile, out)?;
        Ok(())
    })?;
    let options = SvgOptions {
        title: "rprof demo".into(),
        ..SvgOptions::default()
    };
    draw_to(output, &profile, &options, false)?;
    say("next: `rprof record -- YOUR-PROGRAM`, then `rprof report` and `rprof flamegraph`");
    Ok(0)
}

fn write_shares(profile: &Profile, out: &mut dyn Write) -> std::io::Result<()> {
    let Some(event) = profile.main_event() else {
        return Ok(());
    };
    let top = TopFunctions::of(profile, event, WeighBy::Period, Keys::FUNCTIONS);
    writeln!(out, "\n# expected, and measured (total)")?;
    for (name, made) in SHARES {
        let is_it = |f: &rprof_profile::Function| {
            (f.name.as_ref()).is_ok_and(|n| n.rsplit("::").next() == Some(name))
        };
        let weight: u64 = (top.rows.iter())
            .filter(|row| row.key.function.is_some_and(|f| is_it(profile.function(f))))
            .map(|row| row.total_weight)
            .sum();
        let measured = percent(weight, top.weight_total);
        writeln!(out, "{made:>7}% {measured:>7.2}%  {name}")?;
    }
    Ok(())
}
