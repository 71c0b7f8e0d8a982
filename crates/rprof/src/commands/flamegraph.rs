//! `rprof flamegraph`.

use std::path::Path;

use rprof_analysis::Options;
use rprof_export::svg::{self, SvgOptions};
use rprof_export::threads::ThreadMerging;
use rprof_profile::Profile;

use crate::Outcome;
use crate::cli::FlamegraphArgs;
use crate::commands::drawing::{self, About, Picture, PictureSource, Request, title};
use crate::input::recordings::tell_others;
use crate::terminal::output::Output;
use crate::wording::messages::{Failure, say};

pub(crate) fn run(args: &FlamegraphArgs) -> Outcome {
    let source = PictureSource::new(&args.input, &args.picture, &args.command);
    let request = Request {
        command_name: "flamegraph",
        output: &args.output,
        source: &source,
        args: &args.picture,
        command: &args.command,
    };
    drawing::run(&request, args)
}

impl Picture for FlamegraphArgs {
    fn options(&self) -> Options {
        Options {
            inlined: true,
            ..Options::default()
        }
    }

    fn draw(
        &self,
        output: Output,
        profile: &Profile,
        about: &About,
        quiet: bool,
    ) -> Result<(), Failure> {
        draw_to(output, profile, &svg_options(self, about), quiet)
    }

    fn draw_nothing(&self, output: Output, about: &About) -> Result<(), Failure> {
        let options = svg_options(self, about);
        output.write(|out| Ok(svg::write_without_samples(&options, out)?))
    }
}

fn svg_options(args: &FlamegraphArgs, about: &About) -> SvgOptions {
    SvgOptions {
        title: (args.picture.title.clone()).unwrap_or_else(|| title(about, "Flame graph")),
        subtitle: args.subtitle.clone(),
        about: about.places.clone(),
        inverted: !args.no_inverted,
        reverse: args.reverse,
        colors: args.colors,
        min_width: args.min_width,
        width: args.width.map(|pixels| pixels as usize),
        weight: args.picture.filter.weight(),
        threads: ThreadMerging {
            by_number: !args.no_merge_threads,
            patterns: args.merge_threads.clone(),
        },
    }
}

/// Writes the SVG of the first event with samples.
pub(crate) fn draw_to(
    output: Output,
    profile: &Profile,
    options: &SvgOptions,
    quiet: bool,
) -> Result<(), Failure> {
    let event = profile.main_event().ok_or(svg::SvgError::NoSamples)?;
    tell_others(profile, event, "drawn", quiet);
    let path = output.path().map(Path::to_owned);
    let mut left_out = None;
    output.write(|out| {
        left_out = svg::write(profile, event, options, out)?;
        Ok(())
    })?;
    if let (Some(path), false) = (path, quiet) {
        say(format_args!("wrote {}", path.display()));
    }
    if let (Some(left_out), false) = (left_out, quiet) {
        say(format_args!("{left_out}; --min-width 0 draws all"));
    }
    Ok(())
}
