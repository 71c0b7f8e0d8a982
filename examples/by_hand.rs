//! Builds a profile, and writes it as a flame graph to standard output.
//!
//! ```text
//! cargo run -p rprof-examples --bin by_hand >flames.svg
//! ```

use std::error::Error;

use rprof_export::svg::{self, SvgOptions};
use rprof_profile::{ProfileBuilder, WeightUnit};

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let kitchen = builder.intern_object("/usr/bin/kitchen");
    let [main, cook, chop, stir] =
        ["main", "cook", "chop", "stir"].map(|name| builder.intern_function(Ok(name), kitchen));
    let thread = builder.intern_thread_name("kitchen");
    for (stack, samples) in [
        (&[main, cook, chop][..], 60),
        (&[main, cook, stir], 30),
        (&[main], 10),
    ] {
        let stack = builder.intern_stack(stack);
        // One sample per millisecond.
        builder.add_samples(event, thread, stack, samples, samples * 1_000_000);
    }
    let profile = builder.finish();

    let options = SvgOptions {
        title: "A kitchen".to_owned(),
        ..SvgOptions::default()
    };
    svg::write(&profile, event, &options, &mut std::io::stdout().lock())?;
    Ok(())
}
