//! Explains a [`Profile`] in a few sentences: the measurement, the places with most time, the kind of
//! work, phases of threads, and waits.
//!
//! The text is for people in a hurry, logs of CI, and language models. It is deterministic, and
//! every sentence has its number and the command that shows it. A sentence states the samples'
//! result, never a guess about the program's purpose.
//!
//! | module | sentences about |
//! |---|---|
//! | `measured` | samples, duration, losses, incomplete stacks |
//! | `places` | objects, functions, source lines |
//! | `costs` | kinds of work: allocation, copying, page faults, system calls, … |
//! | `threads` | phases of a single thread, short processes, slow machine code |
//! | `waits` | waits by reason |
//! | `changes` | functions that changed between two recordings |
//!
//! # Examples
//! ```
//! use rprof_profile::{Filter, folded};
//!
//! let text = "main;parse;malloc;_int_malloc 30\nmain;parse 10";
//! let profile = folded::read(text.as_bytes(), "x".as_ref(), &Filter::default())?;
//! let text = rprof_explain::explain(&profile, "x.folded").within(400);
//! assert!(text.contains("75% of the samples are memory allocation"));
//! assert!(text.contains("all of it for parse"));
//! # Ok::<(), folded::FoldedError>(())
//! ```

mod changes;
mod costs;
mod kinds;
mod measured;
mod places;
mod sentence;
mod stacks;
mod threads;
mod waits;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rprof_export::clean::shell_word;
use rprof_profile::Profile;
use rprof_profile::compare::ProfileDiff;

pub use costs::RuntimeWork;
pub use sentence::{Explanation, Sentence, Topic};
pub use threads::{CodeCause, HotCode};

/// Explains a profile. `input` is the file, as the commands of the sentences name it; empty for the
/// default file.
///
/// A profile with times of samples ([`Profile::streams`]) has sentences about phases, and one with
/// lines ([`Profile::frame`]) has sentences about source lines.
pub fn explain(profile: &Profile, input: impl AsRef<OsStr>) -> Explanation {
    explain_with(profile, &RuntimeWork::default(), input)
}

/// Explains a profile with folded interpreter code. `work` is what this code did.
pub fn explain_with(
    profile: &Profile,
    work: &RuntimeWork,
    input: impl AsRef<OsStr>,
) -> Explanation {
    let mut sentences = Vec::new();
    sentences.extend(measured::sentences(profile));
    if let Some(stacks) = stacks::Stacks::of_cpu(profile) {
        let costs = costs::Costs::of(&stacks, work);
        sentences.extend(places::sentences(&stacks, &costs));
        sentences.extend(costs.sentences(&stacks));
        sentences.extend(threads::sentences(&stacks));
    }
    sentences.extend(waits::sentences(profile));
    Explanation::new(sentences, input.as_ref())
}

/// Explains a comparison. `files` are the two inputs, as the command names them.
pub fn explain_change(diff: &ProfileDiff, files: [&OsStr; 2]) -> Explanation {
    let [old, new] = files.map(|file| shell_word(file.as_bytes()));
    let sentences = changes::sentences(diff, &format!("diff {old} {new}"));
    Explanation::new(sentences, OsStr::new(""))
}
