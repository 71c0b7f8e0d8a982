//! `rprof collapse`.

use rprof_export::folded;
use rprof_profile::Keys;

use crate::Outcome;
use crate::cli::CollapseArgs;
use crate::input::{warn, write_to};
use crate::messages::say;

pub(crate) fn run(args: &CollapseArgs) -> Outcome {
    let profile = args.input.profile(&Keys::FUNCTIONS)?;
    warn(&profile, args.input.quiet);
    let Some(event) = profile.main_event() else {
        if !args.input.quiet {
            say("there is no sample to fold");
        }
        return write_to(&args.output, |_| Ok(())).map(|()| 0);
    };
    let others = (profile.events.iter().skip(event + 1)).filter(|e| e.samples > 0);
    if others.count() > 0 && !args.input.quiet {
        let name = &profile.events[event].name;
        say(format_args!(
            "only samples of {name} are folded; choose others with --event"
        ));
    }
    write_to(&args.output, |out| {
        Ok(folded::write(
            &profile,
            event,
            args.input.filter.weight(),
            out,
        )?)
    })?;
    Ok(0)
}
