//! [`Found`]: the functions found on one stack.

/// Name of a gap: interpreted callers exist, but no evidence proves which.
pub const UNPROVEN_CALLERS: &str = "[Python callers unproven]";

/// Name of Python functions without a name that was read in time.
pub const UNNAMED_PYTHON: &str = "[Python function unnamed]";

/// Name of JavaScript functions without a name that was read in time.
pub const UNNAMED_JAVASCRIPT: &str = "[JavaScript function unnamed]";

/// Name of Java methods without a name that was read in time.
pub const UNNAMED_JAVA: &str = "[Java function unnamed]";

/// Name of a gap: HotSpot keeps these callers of a virtual thread in the heap.
pub const FROZEN_JAVA_CALLERS: &str = "[Java callers frozen]";

/// Start of the names of HotSpot's stubs, which are no functions of the program.
pub const JAVA_STUB: &str = "Java stub: ";

/// Source of callchain entries for names.
pub trait Names {
    /// Returns the callchain entry that stands for a name, the same for the same name. `None` at a
    /// limit. Names come from the process and may have any contents.
    fn address_of(&mut self, name: &str) -> Option<u64>;
}

/// A function on the inner side of a native frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterpretedFrame {
    /// Index of the native frame whose code runs the function.
    pub native: usize,
    /// Entry of [`Names`].
    pub address: u64,
}

/// Functions found on one stack, innermost first, and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sorted by native frame; several functions of one native frame stand innermost first.
    pub frames: Vec<InterpretedFrame>,
    /// Number of proven functions.
    pub proven: u32,
    /// Number of gaps.
    pub gaps: u32,
    /// Number of proven functions without names.
    pub unnamed: u32,
    /// True if the process memory could not be read, for example because the process has ended.
    pub is_unread: bool,
    /// Urgency of reading the next samples.
    pub urgency: Urgency,
}

/// Urgency of reading samples: callers are in memory that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// At any time: all is on the native stack.
    #[default]
    None,
    /// Within some milliseconds. The callers are known from earlier samples, mostly.
    Relaxed,
    /// As early as possible: evidence is missing.
    High,
}

impl Found {
    /// Empties the result.
    pub fn clear(&mut self) {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        *self = Self {
            frames,
            ..Self::default()
        };
    }

    /// Adds a proven function. Without an address, because its name could not be read, it is shown
    /// as `unnamed`: without a frame, its time would count for its caller.
    pub fn push(
        &mut self,
        native: usize,
        address: Option<u64>,
        unnamed: &str,
        names: &mut dyn Names,
    ) {
        self.proven += 1;
        self.unnamed += u32::from(address.is_none());
        if let Some(address) = address.or_else(|| names.address_of(unnamed)) {
            self.frames.push(InterpretedFrame { native, address });
        }
    }

    /// Adds the name of a runtime's own generated code, which is no function of the program.
    pub fn push_stub(&mut self, native: usize, address: u64) {
        self.frames.push(InterpretedFrame { native, address });
    }

    /// Adds a gap: functions may be missing here.
    pub fn push_gap(&mut self, native: usize, names: &mut dyn Names) {
        self.gaps += 1;
        if let Some(address) = names.address_of(UNPROVEN_CALLERS) {
            self.frames.push(InterpretedFrame { native, address });
        }
    }

    /// Returns true if the stack has functions or gaps.
    #[must_use]
    pub fn is_interpreted(&self) -> bool {
        self.proven + self.gaps > 0
    }

    /// Returns true if all interpreted functions of the stack have names.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.gaps == 0 && self.unnamed == 0 && !self.is_unread
    }
}
