//! [`CodeWindow`]: code bytes, read in pieces.

/// Maximum length of an x86-64 instruction, in bytes.
pub(super) const MAX_INSTRUCTION: usize = 15;

/// Maximum number of pieces of code that are remembered for one search.
const MAX_SNAPSHOTS: usize = 64;

/// Pieces of code that a search has read, with their addresses.
pub(super) type CodeSnapshots = Vec<(u64, Box<[u8]>)>;

/// The code of a process.
pub(crate) trait CodeSource {
    /// Copies code from `avma` on. Returns the number of bytes.
    fn read(&self, avma: u64, into: &mut [u8]) -> usize;
    /// Returns true if there is call frame information for this code, so that a jump to it leaves
    /// the function.
    fn is_described(&self, avma: u64) -> bool;
    /// Returns true if this can be a return address.
    fn is_return_address(&self, avma: u64) -> bool;
}

/// The piece of code that was read last: reading more may be a system call.
#[derive(Default)]
pub(super) struct CodeWindow {
    start: u64,
    bytes: Vec<u8>,
    /// All pieces that were read; `None` if they are not wanted, or are too many.
    snapshots: Option<CodeSnapshots>,
}

impl CodeWindow {
    /// Bytes that are read at a time.
    pub(super) const LEN: usize = 256;

    /// Creates one that remembers what it read.
    pub(super) fn with_snapshots() -> Self {
        Self {
            snapshots: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Returns what was read; `None` if that is too much to be kept.
    pub(super) fn into_snapshots(self) -> Option<CodeSnapshots> {
        self.snapshots
    }

    /// Returns the bytes from `avma` on, `least` or more of them if there are as many.
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
