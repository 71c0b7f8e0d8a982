//! Identity of a sample: cgroups, rules, services.

mod cgroup;
mod pods;
mod process;
mod service;

pub use cgroup::CgroupFacts;
pub use pods::{PodName, Pods};
pub use process::{Facts, ProcessFacts};
pub use service::{Rule, identity_of};
