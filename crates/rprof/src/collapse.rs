//! `rprof collapse`.

use rprof_export::folded;
use rprof_profile::Keys;

use crate::Outcome;
use crate::cli::CollapseArgs;
use crate::input::{Callee, tell_others, warn};
use crate::messages::say;
use crate::output::Output;

pub(crate) fn run(args: &CollapseArgs) -> Outcome {
    let output = Output::prepare(&args.output)?;
    let options = args.waits.choose(args.input.options());
    let mut profile = (args.input).profile_and(None, &options, &Keys::FUNCTIONS, Callee::Kept)?;
    args.waits.join(&mut profile)?;
    warn(&profile, args.input.quiet);
    let Some(event) = profile.main_event() else {
        if !args.input.quiet {
            say("there is no sample to fold");
        }
        return output.write(|_| Ok(())).map(|()| 0);
    };
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
