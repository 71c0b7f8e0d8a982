//! [`Source`]: what the views show.

use std::sync::Arc;

use rprof_profile::{Profile, WeighBy};

/// A profile, with what is known beside it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The profile. Filters by CPU and time need it to have samples one by one.
    pub profile: Arc<Profile>,
    /// Index of the event that is shown.
    pub event: usize,
    /// Rule by which samples count.
    pub weight: WeighBy,
    /// Command or target that was recorded, in a few words.
    pub title: String,
    /// Lines of the verdict, most telling first.
    pub facts: Vec<String>,
    /// Words of the command line that shows the same, without the filters that are set in the views.
    pub command: Vec<String>,
    /// Number that changes where ids of the profile mean something else than before.
    pub generation: u64,
    /// Facts on a live profile, such as the window and the profiler's own share; `None` for a recording.
    pub live: Option<String>,
}
