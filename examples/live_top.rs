//! Prints the top functions of a running command every second, without a file.
//!
//! ```text
//! cargo run --release -p rprof-examples --bin live_top -- sort -R /usr/share/dict/words
//! ```

use std::error::Error;
use std::time::Duration;

use rprof_analysis::LiveAnalysis;
use rprof_launch::{Launcher, WaitOutcome};
use rprof_profile::{Keys, Profile, TopFunctions, WeighBy};
use rprof_recorder::{Output, RecordOptions, Recording, WriterState};
use rprof_sampler::Session;
use rprof_symbols::Symbolizer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or("usage: live_top COMMAND...")?;
    let command = Launcher::new(program).args(arguments);

    let live = LiveAnalysis::new(Symbolizer::builder().build());
    let writes_to = live.clone();
    let output = Output::writer(move |events, features| Ok(writes_to.writer(events, features)));
    let options = RecordOptions::new(output, vec!["live_top".to_owned()]);
    let mut recording = Recording::start(Session::builder(), &command, options)?;
    while recording.writer() == WriterState::Writing
        && let WaitOutcome::Timeout = recording.wait(None, Some(Duration::from_secs(1)))?
    {
        show(&live.profile());
    }
    recording.finish()?;
    show(&live.profile());
    Ok(())
}

/// Prints the ten functions with the most self time.
fn show(profile: &Profile) {
    let Some(event) = profile.main_event() else {
        return;
    };
    let mut top = TopFunctions::of(profile, event, WeighBy::Period, Keys::FUNCTIONS);
    top.sort(false);
    println!("{} samples", profile.events[event].samples);
    for row in top.rows.iter().take(10) {
        let percent = 100.0 * row.self_weight as f64 / top.weight_total.max(1) as f64;
        let name = row.key.function.map(|id| &profile.function(id).name);
        match name {
            // A name may contain any character, so this prints escapes.
            Some(Ok(name)) => println!("{percent:6.2}%  {}", name.escape_debug()),
            _ => println!("{percent:6.2}%  [unknown]"),
        }
    }
}
