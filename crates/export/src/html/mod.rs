//! Interactive page that explores a profile: one self-contained HTML file.
//!
//! | part | holds |
//! |---|---|
//! | `data` | stacks as one tree, tasks, and samples in time order |
//! | `functions`, `stack_tree` | tables of functions and calls |
//! | `encode`, `columns` | columns of numbers, deflated, in base64 |
//! | `coarse` | steps that reduce the detail of a page that is too large |
//! | `markup`, `join` | the document, its policy, and its script from the modules in `page/` |
//!
//! Names are untrusted. The only names in the markup are in a table of the hottest functions,
//! escaped, for readers without JavaScript. All other data is in base64 blocks, and the script
//! inserts it as text only. The page's policy allows this one script by hash, no requests, and
//! (with Trusted Types) no parsing of text as markup.

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
    /// Parts of a sentence about where and when the profile was recorded.
    pub about: Vec<String>,
    /// Facts of the recording's header: names and values.
    pub header: Vec<(String, String)>,
    /// Words a finding of the quality verdict.
    pub wording: fn(&Finding) -> String,
    /// Annotated functions, the hottest first.
    pub annotations: Vec<AnnotatedFunction>,
    /// Keep times and CPUs of samples, if the profile has them.
    pub timeline: bool,
    /// Size limit in bytes. A larger page loses detail.
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

/// Annotated function in the JSON format of `rprof-annotate`. Its names must be clean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotatedFunction {
    /// Name of the function in the profile.
    pub name: String,
    /// Name of its object.
    pub object: String,
    /// JSON.
    pub json: String,
}

/// Profile to compare with.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'p> {
    /// Profile of the old side.
    pub profile: &'p Profile,
    /// Display name.
    pub title: &'p str,
}

/// Result of writing a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Size of the page, in bytes.
    pub size: u64,
    /// Descriptions of the lost detail.
    pub coarser: Vec<&'static str>,
}

/// Writes the page.
///
/// # Errors
/// Fails if the writer does.
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

fn subtitle(profile: &Profile, options: &HtmlOptions) -> String {
    match profile.main_event() {
        Some(event) => clean(&facts::facts(profile, event, &options.about)).into_owned(),
        None => "no sample was taken".into(),
    }
}
