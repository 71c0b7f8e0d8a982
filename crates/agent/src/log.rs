//! [`Log`]: messages of a running agent.

use std::fmt;
use std::sync::Arc;

/// Progress of a running agent; clones share one state.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Makes one of a function that is given lines.
    pub fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log(Arc::new(say))
    }

    /// Tells something.
    pub fn say(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
