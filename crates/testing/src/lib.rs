//! Helpers for the tests of all crates of this workspace: a dev-dependency, never published.
//!
//! - [`needs!`], [`has`] and [`Need`]: required tools, permissions and kernel features.
//! - [`skip`] and [`inapplicable`]: mark a test as skipped. Skips are listed when the test binary
//!   ends. With `RPROF_REQUIRE_TOOLS=1` a [`skip`] is a failure.
//! - [`corpus`]: the folder of recorded files in `RPROF_CORPUS`; [`recordings`]: its recordings.
//! - [`compile()`], [`build_go`]: programs compiled once, or from a cache.
//! - [`in_environment`]: runs a test again with other environment variables.
//! - [`Random`]: pseudo-random numbers, equal on every machine.
//! - [`Tether`]: processes that end with their test.
//! - [`Setting`]: machine settings that are always restored.
//!
//! The crate depends on no other crate of the workspace, so that each of them can use it.

mod captures;
mod compile;
mod environment;
mod fuzz_corpus;
mod need;
mod random;
mod setting;
mod skip;
mod tether;
mod warden;

pub use captures::{corpus, corpus_file, recordings};
pub use compile::{build_go, compile};
pub use environment::in_environment;
pub use fuzz_corpus::{FuzzInput, fuzz_corpus, replay_fuzz_corpus};
pub use need::{Need, go, has, oracles, pprof};
pub use random::Random;
pub use setting::Setting;
pub use skip::{inapplicable, skip};
pub use tether::{Tether, default_signals};

/// Skips the test and returns from it, unless the machine has all these needs.
///
/// ```
/// # use rprof_testing::needs;
/// fn frames_are_those_of_objdump() {
///     needs!(Tool("objdump"), X86_64);
///     // …
/// }
/// ```
#[macro_export]
macro_rules! needs {
    ($($need:ident $(($argument:expr))?),+ $(,)?) => {
        $(if !$crate::has($crate::Need::$need $(($argument))?) { return; })+
    };
}
