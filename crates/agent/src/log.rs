//! [`Log`]: messages of a running agent.

use std::fmt;
use std::sync::Arc;

/// Log of a running agent. Clones share one sink.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Creates a log that calls a function with each line.
    pub fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log(Arc::new(say))
    }

    /// Logs a line.
    pub fn say(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
