//! Whose time a sample is: control groups, rules, services.
//!
//! | module | holds |
//! |---|---|
//! | `cgroup` | [`CgroupFacts`]: container, pod and unit of a control group, by its path |
//! | `pods` | [`Pods`]: namespaces and names of pods, from the folders of a kubelet |
//! | `process` | [`ProcessFacts`]: what /proc tells of a process |
//! | `service` | [`Rule`], and [`identity_of`]: facts to a service |

mod cgroup;
mod pods;
mod process;
mod service;

pub use cgroup::CgroupFacts;
pub use pods::{PodName, Pods};
pub use process::{Facts, ProcessFacts};
pub use service::{Rule, identity_of};
