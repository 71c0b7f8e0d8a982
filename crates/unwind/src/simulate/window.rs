//! [`CodeWindow`]: buffered reads of code.

/// Maximum length of an x86-64 instruction, in bytes.
pub(super) const MAX_INSTRUCTION: usize = 15;

/// Maximum number of code pieces to record for one search.
const MAX_SNAPSHOTS: usize = 64;

/// Pieces of code read by a search, with their addresses.
pub(super) type CodeSnapshots = Vec<(u64, Box<[u8]>)>;

/// The code of a process.
pub(crate) trait CodeSource {
    /// Copies the code at `avma` into `into` and returns the number of bytes.
    fn read(&self, avma: u64, into: &mut [u8]) -> usize;
    /// Returns true if this code has call frame information. A jump to it then leaves the function.
    fn is_described(&self, avma: u64) -> bool;
    /// Returns true if this is a plausible return address.
    fn is_return_address(&self, avma: u64) -> bool;
}

/// The last piece of code. A buffer, since each read may be a system call.
#[derive(Default)]
pub(super) struct CodeWindow {
    start: u64,
    bytes: Vec<u8>,
    /// All pieces read so far; `None` if not requested, or if there are too many.
    snapshots: Option<CodeSnapshots>,
}

impl CodeWindow {
    /// Number of bytes of one read.
    pub(super) const LEN: usize = 256;

    /// Creates a window that records all pieces.
    pub(super) fn with_snapshots() -> Self {
        Self {
            snapshots: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Returns the recorded pieces; `None` if there are too many.
    pub(super) fn into_snapshots(self) -> Option<CodeSnapshots> {
        self.snapshots
    }

    /// Returns the code at `avma`: at least `least` bytes if that many are readable.
    pub(super) fn at<C: CodeSource>(&mut self, avma: u64, least: usize, code: &C) -> &[u8] {
        let within = usize::try_from(avma.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let behind = self.bytes.len().saturating_sub(within);
        if behind < least {
            self.start = avma;
            self.bytes.resize(Self::LEN, 0);
            let len = code.read(avma, &mut self.bytes);
            self.bytes.truncate(len);
            if let Some(snapshots) = &mut self.snapshots {
                snapshots.push((avma, self.bytes.as_slice().into()));
            }
            (self.snapshots).take_if(|snapshots| snapshots.len() > MAX_SNAPSHOTS);
            return &self.bytes;
        }
        self.bytes.get(within..).unwrap_or(&[])
    }
}
