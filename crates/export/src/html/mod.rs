//! A page that explores a profile: one file of HTML that needs nothing from anywhere.
//!
//! | part | holds |
//! |---|---|
//! | `data` | stacks as one tree, tasks, and samples in order of time |
//! | `functions`, `stack_tree` | the tables of these |
//! | `encode`, `columns` | columns of numbers, deflated, in base64 |
//! | `coarse` | steps by which a page that is too large becomes coarser |
//! | `markup`, `join` | the document, its policy, and its script out of the modules in `page/` |
//!
//! Names are nowhere in the markup but in a table of the hottest functions, escaped, which is there for readers without
//! JavaScript. All else is in blocks of base64, and gets into the document as text only; the page's policy allows its one
//! script by hash, no request, and (by Trusted Types) nothing that would take text for markup.

mod coarse;
mod columns;
mod data;
mod encode;
mod functions;
mod join;
mod markup;
mod stack_tree;

use std::io::{self, Write};

use rprof_profile::Profile;
use serde_json::{Value, json};

use crate::clean::clean;
use crate::svg::facts;
use crate::verdict::{Finding, findings};
use coarse::{Loss, STEPS};
use columns::Section;
use encode::encode;

/// Options of a page.
#[derive(Clone, Debug)]
pub struct HtmlOptions {
    /// Title at the top.
    pub title: String,
    /// Parts of a sentence on where and when it was recorded.
    pub about: Vec<String>,
    /// Facts of the recording's header, by name.
    pub header: Vec<(String, String)>,
    /// Words a finding of the quality verdict.
    pub wording: fn(&Finding) -> String,
    /// Annotated functions, the hottest first.
    pub annotations: Vec<AnnotatedFunction>,
    /// Keep times and CPUs of samples, if the profile has them.
    pub timeline: bool,
    /// Size in bytes beyond which the page becomes coarser.
    pub max_size: u64,
}

impl Default for HtmlOptions {
    fn default() -> Self {
        HtmlOptions {
            title: "Profile".into(),
            about: Vec::new(),
            header: Vec::new(),
            annotations: Vec::new(),
            wording: Finding::to_string,
            timeline: true,
            max_size: 10 << 20,
        }
    }
}

/// Source lines and instructions of a function with their samples, as `rprof-annotate` writes them in JSON. The names in it are
/// safe to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotatedFunction {
    /// Name of the function, as the profile has it.
    pub name: String,
    /// Name of its object.
    pub object: String,
    /// JSON.
    pub json: String,
}

/// Profile that another one is compared with, and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'p> {
    /// The profile before.
    pub profile: &'p Profile,
    /// Name of it.
    pub title: &'p str,
}

/// Result of writing a page: what had to be left out of it, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the page.
    pub size: u64,
    /// Steps by which it was made coarser.
    pub coarser: Vec<&'static str>,
}

/// Writes the page.
///
/// # Errors
/// `out` does.
pub fn write(
    profile: &Profile,
    baseline: Option<Baseline<'_>>,
    options: &HtmlOptions,
    out: &mut dyn Write,
) -> io::Result<Written> {
    let mut page = String::new();
    let mut coarser = Vec::new();
    for step in STEPS {
        let step = match options.timeline {
            true => step,
            false => coarse::Coarseness {
                tick: u64::MAX,
                ..step
            },
        };
        let is_felt = match step.loses {
            Loss::Times => options.timeline,
            Loss::Code => !options.annotations.is_empty(),
            Loss::Detail => true,
        };
        coarser.extend(step.told.filter(|_| is_felt));
        let mut data = encode(profile, baseline.map(|baseline| baseline.profile), &step)?;
        let kept = options.annotations.len() / step.code_divisor;
        let code = &options.annotations[..kept];
        data.tell_code(code);
        let mut sections = data.sections;
        let meta = meta(profile, baseline, options, data.facts, &coarser);
        sections.insert(0, Section::of_text("meta", &meta.to_string())?);
        for (at, function) in code.iter().enumerate() {
            sections.push(Section::of_text(&format!("annotate-{at}"), &function.json)?);
        }
        page = markup::document(profile, options, &sections)?;
        if page.len() as u64 <= options.max_size {
            break;
        }
    }
    out.write_all(page.as_bytes())?;
    out.flush()?;
    Ok(Written {
        size: page.len() as u64,
        coarser,
    })
}

/// Returns the description that the page begins with.
fn meta(
    profile: &Profile,
    baseline: Option<Baseline<'_>>,
    options: &HtmlOptions,
    mut facts: Value,
    coarser: &[&str],
) -> Value {
    let verdict: Vec<String> = (findings(profile).iter())
        .map(|finding| clean(&(options.wording)(finding)).into_owned())
        .collect();
    let cleaned = |text: &String| clean(text).into_owned();
    let header: Vec<[String; 2]> = (options.header.iter())
        .map(|(name, value)| [cleaned(name), cleaned(value)])
        .collect();
    let more = json!({
        "title": cleaned(&options.title),
        "subtitle": subtitle(profile, options),
        "verdict": verdict,
        "header": header,
        "oldTitle": baseline.map(|baseline| clean(baseline.title).into_owned()),
        "coarser": coarser,
        "version": env!("CARGO_PKG_VERSION"),
    });
    if let (Value::Object(facts), Value::Object(more)) = (&mut facts, more) {
        facts.extend(more);
    }
    facts
}

/// Returns what was recorded, in one line.
fn subtitle(profile: &Profile, options: &HtmlOptions) -> String {
    match profile.main_event() {
        Some(event) => clean(&facts::facts(profile, event, &options.about)).into_owned(),
        None => "no sample was taken".into(),
    }
}
