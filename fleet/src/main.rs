//! The command `rprof-fleet`: parses its command line, calls the library, prints results.

mod cli;
mod output;
#[cfg(feature = "ballista")]
mod signals;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use chrono::{Days, Utc};
use clap::Parser;
use rprof_export::clean::clean;
use rprof_export::diff::{DiffFormat, DiffOptions};
use rprof_export::svg::SvgOptions;
use rprof_export::{Content, ExportFormat, ReportOptions};
use rprof_fleet::compare::{Per, latest_versions, versions};
use rprof_fleet::engine::{Engine, Fleet};
use rprof_fleet::files::{Files, Refused};
use rprof_fleet::profile::{Detail, Root, add_quality, profile};
use rprof_fleet::store::Store;
use rprof_fleet::{compact, ddl, retain, symbolize};
use rprof_fleet_table::Table;
use rprof_profile::Profile;
use rprof_profile::compare::{CompareOptions, ProfileDiff, Verdict};

use cli::{Cli, Command, Judging, Question};

/// Exit status if a function got slower, as in `rprof gate`.
const REGRESSED: u8 = 3;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).init();
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Plans of long queries are deeply nested.
        .thread_stack_size(8 << 20)
        .build();
    let answer = runtime.context("cannot start threads").and_then(|runtime| {
        let answer = runtime.block_on(answer(cli.command));
        // Some threads may still be busy with cancelled work.
        runtime.shutdown_background();
        answer
    });
    match answer {
        Ok(status) => status,
        Err(error) => {
            output::note(&format!("rprof-fleet: {}", clean(&format!("{error:#}"))));
            ExitCode::FAILURE
        }
    }
}

/// Runs a command. For a cluster query, a signal cancels its jobs first; other commands have the
/// signal's default action.
async fn answer(command: Command) -> Result<ExitCode> {
    #[cfg(feature = "ballista")]
    if let Some(Engine::Ballista(_)) = command.engine() {
        let signal = signals::asked_to_end()?;
        let answer = tokio::spawn(run(command));
        return tokio::select! {
            answer = answer => answer?,
            number = signal => Ok(signals::end(number).await),
        };
    }
    tokio::spawn(run(command)).await?
}

async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Top {
            question,
            limit,
            children,
            format,
        } => {
            let form = form(&format, Content::Functions)?;
            let profile = asked(&question, Root::None, Detail::Functions).await?;
            let mut options = ReportOptions {
                width: output::width(),
                color: output::has_color(),
                rest: Some(|count| format!("{count} more functions: -n shows more")),
                ..ReportOptions::default()
            };
            options.rows.limit = Some(limit);
            options.rows.by_total = children;
            output::print(|out| (form.write)(&profile, &options, out))?;
        }
        Command::Flamegraph {
            question,
            root,
            output: path,
            title,
        } => {
            let profile = asked(&question, root, Detail::Functions).await?;
            let options = SvgOptions {
                title: title.unwrap_or_else(|| title_of(&question)),
                about: vec![format!("from {}", question.data.data)],
                ..SvgOptions::default()
            };
            let event = profile.main_event().context("there is no sample to draw")?;
            output::write(&path, |out| {
                rprof_export::svg::write(&profile, event, &options, out)
                    .map(drop)
                    .map_err(std::io::Error::other)
            })?;
        }
        Command::Html {
            question,
            root,
            output: path,
        } => {
            let profile = asked(&question, root, Detail::Addresses).await?;
            let options = rprof_export::html::HtmlOptions {
                title: title_of(&question),
                timeline: false,
                ..Default::default()
            };
            output::write(&path, |out| {
                rprof_export::html::write(&profile, None, &options, out).map(drop)
            })?;
        }
        Command::Export {
            question,
            root,
            format,
            output: path,
        } => {
            let form =
                ExportFormat::by_name(&format).filter(|form| form.content != Content::Samples);
            let form = form.with_context(|| match format.as_str() {
                "firefox" | "speedscope" => {
                    format!("{format} shows samples one by one, and the tables have sums by minute")
                }
                _ => format!("there is no form {format}: folded, svg, pprof, otlp, json, csv"),
            })?;
            let detail = match form.content {
                Content::Addresses => Detail::Addresses,
                _ => Detail::Functions,
            };
            let profile = asked(&question, root, detail).await?;
            let options = ReportOptions::default();
            match path {
                Some(path) => output::write(&path, |out| (form.write)(&profile, &options, out))?,
                None => output::print(|out| (form.write)(&profile, &options, out))?,
            }
        }
        Command::Diff {
            question,
            versions: wanted,
            judging,
            all,
            format,
            output: path,
        } => {
            let form = DiffFormat::by_name(&format)
                .with_context(|| format!("there is no form {format}: text, markdown, json, csv"))?;
            let fleet = open(&question).await?;
            let filter = question.filter();
            let wanted = match wanted {
                Some(wanted) => wanted,
                None => {
                    let mut latest = latest_versions(&fleet, &filter).await?;
                    match (latest.pop(), latest.is_empty()) {
                        (Some((_, versions)), true) => versions,
                        (None, _) => bail!("no service has two versions at that time"),
                        (Some(_), false) => {
                            bail!("several services have two versions: --service chooses one")
                        }
                    }
                }
            };
            let mut options = compare_options(&judging, 0.05);
            options.stacks = path.is_some();
            let diff = versions(&fleet, &filter, &wanted, judging.per, &options).await;
            tell_refused(&fleet).await;
            let diff = diff?;
            let shown = DiffOptions {
                all: all || !form.is_for_people,
                width: output::width(),
                color: output::has_color(),
                rest: |count, _| format!("{count} functions more: --all shows them"),
                ..DiffOptions::default()
            };
            output::print(|out| (form.write)(&diff, &shown, out))?;
            if let Some(path) = path {
                output::write(&path, |out| {
                    rprof_export::diff::svg::write(&diff, &Default::default(), out)
                        .map(drop)
                        .map_err(std::io::Error::other)
                })?;
            }
        }
        Command::Regressions { question, judging } => {
            return regressions(&question, &judging).await;
        }
        Command::Sql {
            question,
            query,
            format,
        } => {
            let fleet = open(&question).await?;
            let answer = fleet.ask(&query).await;
            tell_refused(&fleet).await;
            let answer = answer?;
            output::print(|out| output::rows(&answer, format, out))?;
        }
        Command::Compact {
            data,
            time,
            grace,
            settle,
        } => {
            let store = Store::open(&data.data)?;
            let options = compact::Options {
                hours: time.hours(),
                now: Utc::now().timestamp(),
                settle: settle.into(),
                grace: grace.into(),
            };
            let outcome = compact::compact(&store, &options).await?;
            tell(&outcome.refused);
            output::note(&format!(
                "{} files of {} bytes are {} of {} bytes; {} deleted, {} wait for their time",
                outcome.inputs,
                outcome.bytes_before,
                outcome.written,
                outcome.bytes_after,
                outcome.deleted,
                outcome.waiting
            ));
        }
        Command::Symbolize {
            data,
            time,
            debug_dir,
            debuginfod,
        } => {
            let servers = match debuginfod {
                true => Some(rprof_debuginfod::Client::new(
                    rprof_debuginfod::Settings::from_environment()?,
                )),
                false if debug_dir.is_empty() => {
                    bail!("nowhere to look: --debug-dir DIR, --debuginfod")
                }
                false => None,
            };
            let store = Store::open(&data.data)?;
            let outcome = symbolize::symbolize(&store, time.hours(), debug_dir, servers).await?;
            for image in &outcome.images {
                let why = image
                    .reason
                    .map_or_else(String::new, |reason| format!("; others: {reason}"));
                let unsent = match image.found < image.wanted && !image.unsent.is_empty() {
                    true => format!("; debuginfod: {}", image.unsent.join(", ")),
                    false => String::new(),
                };
                output::note(&clean(&format!(
                    "{} {}: {} of {} addresses named{why}{unsent}",
                    image.path, image.build_id, image.found, image.wanted
                )));
            }
            output::note(&format!("{} rows appended", outcome.rows));
        }
        Command::Retain {
            data,
            days,
            dry_run,
        } => {
            let store = Store::open(&data.data)?;
            let day = Utc::now()
                .date_naive()
                .checked_sub_days(Days::new(days.into()));
            let day = day.context("so long ago there was no calendar")?;
            let found = retain::before(&store, day).await?;
            if !dry_run {
                retain::drop_files(&store, &found).await?;
            }
            let verb = if dry_run {
                "would be deleted"
            } else {
                "deleted"
            };
            let dates: Vec<String> = found.dates.iter().map(ToString::to_string).collect();
            output::note(&format!(
                "{} files of {} bytes {verb}, of dates before {day}: {}",
                found.paths.len(),
                found.bytes,
                if dates.is_empty() {
                    "none".to_owned()
                } else {
                    dates.join(", ")
                }
            ));
        }
        Command::Schema { ddl, data } => {
            let text = ddl::statements(ddl, &data)?;
            output::print(|out| out.write_all(text.as_bytes()))?;
        }
        Command::Files { data, time } => {
            let store = Store::open(&data.data)?;
            let mut paths = Vec::new();
            for table in Table::ALL {
                let files = Files::of(&store, table, time.hours()).await?;
                tell(&files.refused);
                paths.extend(files.live.into_iter().map(|file| file.path));
            }
            output::print(|out| paths.iter().try_for_each(|path| writeln!(out, "{path}")))?;
        }
        #[cfg(feature = "ballista")]
        Command::Scheduler { host, port } => rprof_fleet::cluster::scheduler(&host, port).await?,
        #[cfg(feature = "ballista")]
        Command::Executor {
            scheduler,
            host,
            port,
            tasks,
            work_dir,
        } => {
            let (at, of) = scheduler
                .rsplit_once(':')
                .context("--scheduler is HOST:PORT")?;
            let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
            rprof_fleet::cluster::executor(rprof_fleet::cluster::Executor {
                scheduler: (
                    at.to_owned(),
                    of.parse().context("--scheduler is HOST:PORT")?,
                ),
                host,
                port,
                tasks: tasks.unwrap_or_else(cpus),
                work: work_dir,
            })
            .await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn form(name: &str, content: Content) -> Result<&'static ExportFormat> {
    let known = ExportFormat::of(content)
        .map(|form| form.name)
        .collect::<Vec<_>>();
    ExportFormat::by_name(name)
        .filter(|form| form.content == content)
        .with_context(|| format!("there is no form {name}: {}", known.join(", ")))
}

fn title_of(question: &Question) -> String {
    match (&question.service, &question.version) {
        (Some(service), Some(version)) => format!("{service} {version}"),
        (Some(service), None) => service.clone(),
        _ => "Fleet".to_owned(),
    }
}

async fn open(question: &Question) -> Result<Fleet> {
    let store = Store::open(&question.data.data)?;
    let engine: Engine = question.engine.clone();
    Ok(Fleet::open(store, question.time.hours(), engine).await?)
}

/// Returns the profile of a query, and reports skipped files.
async fn asked(question: &Question, root: Root, detail: Detail) -> Result<Profile> {
    let fleet = open(question).await?;
    let filter = question.filter();
    let found = profile(&fleet, &filter, root, detail).await;
    tell_refused(&fleet).await;
    let mut found = found?;
    add_quality(&fleet, &filter, &mut found.quality).await?;
    Ok(found)
}

async fn tell_refused(fleet: &Fleet) {
    tell(&fleet.refused().await);
}

fn tell(refused: &[Refused]) {
    for file in refused {
        let line = format!("rprof-fleet: left out: {}: {}", file.path, file.why);
        output::note(&clean(&line));
    }
}

fn compare_options(judging: &Judging, q: f64) -> CompareOptions {
    CompareOptions {
        threshold: judging.threshold / 100.0,
        min_share: judging.min_share / 100.0,
        q,
        ..CompareOptions::default()
    }
}

async fn regressions(question: &Question, judging: &Judging) -> Result<ExitCode> {
    let fleet = open(question).await?;
    let services = latest_versions(&fleet, &question.filter()).await?;
    // Divides the limit for false positives among the services, so that it holds for all together.
    let options = compare_options(judging, 0.05 / services.len().max(1) as f64);
    let mut compared: Vec<(String, String, ProfileDiff)> = Vec::new();
    for (service, two) in &services {
        let mut filter = question.filter();
        filter.service = Some(service.clone());
        let name = format!("{}..{}", two.old, two.new);
        match versions(&fleet, &filter, two, judging.per, &options).await {
            Ok(diff) => compared.push((service.clone(), name, diff)),
            Err(error) => output::note(&clean(&format!("rprof-fleet: {service} {name}: {error}"))),
        }
    }
    tell_refused(&fleet).await;
    if services.is_empty() {
        bail!("no service has two versions at that time");
    }
    let mut rows: Vec<(f64, String)> = Vec::new();
    for (service, name, diff) in &compared {
        for row in &diff.functions {
            let change = &row.own;
            if change.verdict != Verdict::Regressed {
                continue;
            }
            let function = row.name.as_deref().unwrap_or("[unknown]");
            let interval = change
                .interval
                .as_ref()
                .map_or_else(String::new, |interval| {
                    format!(
                        "{:+.1} % to {:+.1} %",
                        (interval.low - 1.0) * 100.0,
                        (interval.high - 1.0) * 100.0
                    )
                });
            let relative = change.relative().map_or("new".to_owned(), |relative| {
                format!("{:+.1} %", relative * 100.0)
            });
            let p = change.p.map_or_else(String::new, |p| format!("p {p:.1e}"));
            let amounts = match judging.per {
                Per::Share => {
                    format!("{:.2} % to {:.2} %", change.old * 100.0, change.new * 100.0)
                }
                Per::Second => format!(
                    "{} to {}",
                    per_second(change.old, diff),
                    per_second(change.new, diff)
                ),
            };
            let line =
                format!("{service}  {name}  {function}  {amounts}  {relative}  [{interval}]  {p}");
            rows.push((change.difference(), clean(&line).into_owned()));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    output::print(|out| {
        writeln!(
            out,
            "{} services with two versions, {} functions that take more of their own:",
            compared.len(),
            rows.len()
        )?;
        rows.iter()
            .try_for_each(|(_, line)| writeln!(out, "{line}"))
    })?;
    Ok(match rows.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REGRESSED),
    })
}

fn per_second(amount: f64, diff: &ProfileDiff) -> String {
    match diff.unit {
        rprof_profile::WeightUnit::Nanoseconds => format!("{:.3} ms/s", amount / 1e6),
        _ => format!("{amount:.1}/s"),
    }
}
