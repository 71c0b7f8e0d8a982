//! Helpers for the tests of all crates of this workspace: a dev-dependency, never published.
//!
//! - [`needs!`], [`has`] and [`Need`]: tools, permissions and kernel features that a machine may lack.
//! - [`skip`] and [`inapplicable`]: a test that cannot test here says so, is counted, and is listed when
//!   its binary ends. With `RPROF_REQUIRE_TOOLS=1` a skip is a failure.
//! - [`corpus`]: the folder of recorded files that `RPROF_CORPUS` names; [`recordings`]: all of them.
//! - [`compile()`]: programs that are compiled once.
//! - [`in_environment`]: a test once more, in a process with other environment variables.
//! - [`replay_fuzz_corpus`]: a fuzz target over its committed inputs, without a fuzzer.
//! - [`Random`]: one generator of pseudo-random numbers, the same on every machine.
//! - [`Tether`]: processes that do not outlive the test that started them.
//! - [`Setting`]: settings of the machine that are restored, whatever ends the test.
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
pub use compile::compile;
pub use environment::in_environment;
pub use fuzz_corpus::{FuzzInput, fuzz_corpus, replay_fuzz_corpus};
pub use need::{Need, go, has, oracles, pprof};
pub use random::Random;
pub use setting::Setting;
pub use skip::{inapplicable, skip};
pub use tether::{Tether, default_signals};

/// Returns from the test, skipped, unless the machine has all that is named.
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
