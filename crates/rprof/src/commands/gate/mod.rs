//! `rprof gate`.
//!
//! | module | holds |
//! |---|---|
//! | `runs` | recording of runs in turns, and signals |
//! | `base` | folders of recordings: reading and saving |
//! | `machine` | properties of this machine and of a base |
//! | `calibrate` | `--calibrate` |
//! | `request` | the comparison |

mod base;
mod calibrate;
mod machine;
mod request;
mod runs;

use std::path::Path;

use rprof_profile::compare::Design;
use rprof_profile::unit::{counted, counted_are};

use crate::Outcome;
use crate::cli::GateArgs;
use crate::commands::diff::{INCONCLUSIVE, Labels};
use crate::recording::two_commands::commands;
use crate::wording::comparison_reports;
use crate::wording::messages::say;
use base::{Base, keep};
use machine::Machine;
use request::{request, usage, words};
use runs::Runs;

pub(crate) fn run(args: &GateArgs) -> Outcome {
    let sides = commands(&args.command, "gate")?;
    comparison_reports::check(&args.told)?;
    if args.calibrate {
        return calibrate::run(args, &sides);
    }
    let here = Machine::here();
    let of_machine = (args.baseline_dir.as_ref()).map(|folder| folder.join(here.name()));
    let base = match (&args.base, &of_machine) {
        (Some(folder), _) => Some(Base::open(folder, &here)?),
        (None, Some(folder)) if !args.renew => Base::find(folder, &here)?,
        _ => None,
    };
    let is_new = of_machine.is_some() && base.is_none();
    let save = args
        .save
        .as_ref()
        .or(of_machine.as_ref().filter(|_| is_new));
    if let (Some(folder), false) = (save, is_new) {
        base::check(folder)?;
    }
    match (base, &sides[..]) {
        (_, [_, _, ..]) if args.base.is_some() || args.baseline_dir.is_some() => Err(usage(
            "--base and --baseline-dir are the old side already: give one COMMAND, without :::",
        )),
        (Some(base), [command]) => {
            let runs = Runs::begin(args, save)?;
            let new = runs.record(&[("", command.as_slice())])?.concat();
            let labels = Labels([base.folder.clone(), words(command)]);
            let status = request(args, Design::Independent, labels).run(&base.files, &new)?;
            if let Some(folder) = save {
                keep(&new, folder, &here)?;
            }
            Ok(status)
        }
        (None, [old, new]) => {
            let runs = Runs::begin(args, save)?;
            let labels = Labels([words(old), words(new)]);
            let commands = [("old", old.as_slice()), ("new", new.as_slice())];
            let [old, new] = <[_; 2]>::try_from(runs.record(&commands)?).unwrap_or_default();
            let status = request(args, Design::Paired, labels).run(&old, &new)?;
            if let Some(folder) = save {
                keep(&old, &folder.join("old"), &here)?;
                keep(&new, &folder.join("new"), &here)?;
            }
            Ok(status)
        }
        (None, [command]) => match save {
            Some(folder) => {
                let runs = Runs::begin(args, Some(folder))?;
                let files = runs.record(&[("", command.as_slice())])?.concat();
                keep(&files, folder, &here)?;
                Ok(kept(args, folder, is_new && !args.renew))
            }
            None => Err(usage(
                "nothing to compare with: give recordings (--base DIR, which --save DIR makes), or two commands \
                 (rprof gate -- OLD ::: NEW)",
            )),
        },
        _ => Err(usage("no COMMAND to run: rprof gate … -- COMMAND")),
    }
}

/// Prints where the runs are. Without a base, a strict gate is inconclusive.
fn kept(args: &GateArgs, folder: &Path, lacked_base: bool) -> u8 {
    let runs = args.runs;
    let are = counted_are(runs.into(), "run");
    let folder = folder.display();
    match (&args.baseline_dir, lacked_base) {
        (Some(all), true) => say(format_args!(
            "no verdict: {} had no base for this machine. {are} the base now \
             ({folder})",
            all.display()
        )),
        (Some(_), false) => say(format_args!(
            "{are} now the base for this machine ({folder})"
        )),
        (None, _) => say(format_args!(
            "saved {} in {folder}; compare others with `rprof gate --base {folder} -- \
             COMMAND`",
            counted(runs.into(), "run")
        )),
    }
    match lacked_base && args.judging.strict {
        true => INCONCLUSIVE,
        false => 0,
    }
}
