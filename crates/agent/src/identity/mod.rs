//! Identity of a sample: cgroups, rules, services.
//!
//! | module | holds |
//! |---|---|
//! | `cgroup` | [`CgroupFacts`]: container, pod and unit of a cgroup, from its path |
//! | `pods` | [`Pods`]: namespaces and names of pods, from the kubelet's folders |
//! | `process` | [`ProcessFacts`]: facts about a process from /proc |
//! | `service` | [`Rule`], and [`identity_of`]: maps facts to a service |

mod cgroup;
mod pods;
mod process;
mod service;

pub use cgroup::CgroupFacts;
pub use pods::{PodName, Pods};
pub use process::{Facts, ProcessFacts};
pub use service::{Rule, identity_of};
