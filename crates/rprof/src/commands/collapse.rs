//! `rprof collapse`.

use rprof_export::folded;
use rprof_profile::Keys;

use crate::Outcome;
use crate::cli::CollapseArgs;
use crate::input::nothing_found;
use crate::input::recordings::{Callee, tell_others, warn};
use crate::terminal::output::Output;

pub(crate) fn run(args: &CollapseArgs) -> Outcome {
    let output = Output::prepare(&args.output)?;
    let options = args.waits.choose(args.input.options())?;
    let mut profile = (args.input).profile_and(None, &options, &Keys::FUNCTIONS, Callee::Kept)?;
    args.waits.join(&mut profile)?;
    warn(&profile, args.input.quiet);
    let no_samples = || nothing_found::without_samples(&args.input.paths());
    let event = profile.main_event().ok_or_else(no_samples)?;
    tell_others(&profile, event, "folded", args.input.quiet);
    output.write(|out| {
        Ok(folded::write(
            &profile,
            event,
            args.input.filter.weight(),
            out,
        )?)
    })?;
    Ok(0)
}
