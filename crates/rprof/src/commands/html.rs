//! `rprof html`.

use std::path::{Path, PathBuf};

use rprof_analysis::{MemoryOptions, Options};
use rprof_export::html::{self, Baseline, HtmlOptions};
use rprof_profile::{Keys, Profile};

use crate::Outcome;
use crate::cli::{FilterArgs, HtmlArgs};
use crate::commands::code_of_page;
use crate::commands::drawing::{self, About, Picture, PictureSource, Request, title};
use crate::input::recordings::{Callee, read_merged};
use crate::terminal::output::Output;
use crate::wording::messages::{Failure, say};
use crate::wording::remedies;

pub(crate) fn run(args: &HtmlArgs) -> Outcome {
    let source = PictureSource::new(&args.input, &args.picture, &args.command);
    let request = Request {
        command_name: "html",
        output: &args.output,
        source: &source,
        args: &args.picture,
        command: &args.command,
    };
    let page = Page {
        args,
        // A missing file is reported before the recording.
        old: (args.diff.as_ref())
            .map(|path| read_old(args, &source.filter, path))
            .transpose()?,
    };
    drawing::run(&request, &page)
}

struct Page<'a> {
    args: &'a HtmlArgs,
    old: Option<Profile>,
}

fn options(args: &HtmlArgs) -> Options {
    Options {
        addresses: !args.no_lines,
        inlined: true,
        by_thread: args.picture.waits.by.is_none(),
        columns: !args.no_timeline,
        memory: match args.no_timeline {
            true => MemoryOptions::Moments,
            false => MemoryOptions::OverTime,
        },
        ..Options::default()
    }
}

fn read_old(args: &HtmlArgs, filter: &FilterArgs, path: &PathBuf) -> Result<Profile, Failure> {
    let events: Vec<String> = (args.picture.sampling.event.iter())
        .flat_map(|list| list.split(','))
        .map(str::to_owned)
        .collect();
    let options = Options {
        filter: filter.filter(&events),
        ..options(args)
    };
    let paths = std::slice::from_ref(path);
    let quiet = args.picture.sampling.quiet;
    let old = read_merged(
        paths,
        filter,
        &options,
        &Keys::FUNCTIONS,
        Callee::Kept,
        quiet,
    )?;
    Ok(old.profile)
}

impl Picture for Page<'_> {
    fn options(&self) -> Options {
        options(self.args)
    }

    fn draw(
        &self,
        output: Output,
        profile: &Profile,
        about: &About,
        quiet: bool,
    ) -> Result<(), Failure> {
        let args = self.args;
        let code = code_of_page::annotated(args, about)?;
        let output = output.private_if(code.holds_kernel_addresses);
        let options = HtmlOptions {
            title: (args.picture.title.clone()).unwrap_or_else(|| title(about, "Profile")),
            about: about.places.clone(),
            header: about.facts.clone(),
            wording: remedies::of_finding,
            timeline: !args.no_timeline,
            max_size: args.page_size,
            annotations: code.functions,
        };
        let name = args.diff.as_ref().map(|path| path.display().to_string());
        let baseline = (self.old.as_ref().zip(name.as_deref()))
            .map(|(profile, title)| Baseline { profile, title });
        let path = output.path().map(Path::to_owned);
        let mut written = html::Written::default();
        output.write(|out| {
            written = html::write(profile, baseline, &options, out)?;
            Ok(())
        })?;
        if quiet {
            return Ok(());
        }
        let size = written.size as f64 / f64::from(1 << 20);
        if !written.coarser.is_empty() {
            let steps = written.coarser.join("; ");
            say(format_args!(
                "made the page smaller for --page-size: {steps}"
            ));
        }
        if written.size > args.page_size {
            say(format_args!(
                "the page exceeds --page-size ({size:.1} MB): select samples with --time, --comm or \
                 --symbol"
            ));
        }
        if let Some(path) = path {
            say(format_args!(
                "wrote {} ({size:.1} MB); open it in a browser",
                path.display()
            ));
        }
        Ok(())
    }

    fn draw_nothing(&self, output: Output, about: &About) -> Result<(), Failure> {
        self.draw(output, &Profile::default(), about, true)
    }
}
