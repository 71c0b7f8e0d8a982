//! `rprof agent`: windows of the whole system, as they arrive.
//!
//! Builds without the agent have one test: the message says how to get it.

#[cfg(feature = "agent")]
mod crashes;
#[cfg(feature = "agent")]
mod servers;
#[cfg(feature = "agent")]
mod support;
#[cfg(feature = "agent")]
mod windows;

#[cfg(not(feature = "agent"))]
#[test]
fn a_build_without_the_agent_says_how_to_get_one() {
    let here = crate::support::Here::new();
    here.rprof("agent check").exits(2).says("--features agent");
}
