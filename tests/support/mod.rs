//! Helpers for all tests: a shell session in its own folder, fixtures, and output parsers.
//! Requirements and skips are in `rprof-testing`.

mod call_tree;
mod compare;
mod exclusive;
mod fixtures;
mod folded;
mod perf;
mod python;
mod recording;
mod report;
mod run;
pub(crate) mod server;
mod shell;
mod stats;
mod tmux;
mod wait;
mod wire;
mod xml;

pub(crate) use call_tree::{CallTree, Language};
pub(crate) use compare::{Comparison, bare, is_exec, legible_samples, legible_stacks};
pub(crate) use exclusive::change_settings;
pub(crate) use fixtures::{c, c_with, cxx, cxx_with, generated, java, large_source, rust};
pub(crate) use folded::{Folded, folded};
pub(crate) use perf::{
    PERF_REPORT, PERF_SCRIPT, PerfFrame, PerfSample, fold_samples, perf_samples, perf_self_samples,
};
pub(crate) use python::python_with_trampolines;
pub(crate) use report::{Report, Row};
pub(crate) use rprof_testing::{Need, Setting, has, inapplicable, needs, oracles, pprof, skip};
pub(crate) use run::Run;
pub(crate) use shell::{Here, Running, Shell};
pub(crate) use stats::{check, check_share, measured, truth_seconds};
pub(crate) use tmux::Tmux;
pub(crate) use wait::{wait_for_work, wait_until};
pub(crate) use xml::well_formed;
