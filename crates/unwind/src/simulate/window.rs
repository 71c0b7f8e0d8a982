//! [`CodeWindow`]: buffered reads of code.

/// Maximum length of an x86-64 instruction in bytes.
pub(super) const MAX_INSTRUCTION: usize = 15;

const MAX_SNAPSHOTS: usize = 64;

pub(super) type CodeSnapshots = Vec<(u64, Box<[u8]>)>;

pub(crate) trait CodeSource {
    /// Copies code. Returns the number of bytes.
    fn read(&self, avma: u64, into: &mut [u8]) -> usize;
    /// Returns true if the code has call frame information, so that a jump to it leaves the
    /// function.
    fn is_described(&self, avma: u64) -> bool;
    fn is_return_address(&self, avma: u64) -> bool;
    /// Returns true if a call cannot return to this address: another function begins there.
    fn begins_behind_call(&self, avma: u64) -> bool {
        self.is_described(avma)
    }
}

/// Buffers code, since each read may be a system call.
#[derive(Default)]
pub(super) struct CodeWindow {
    start: u64,
    bytes: Vec<u8>,
    /// All pieces read; `None` if not requested, or too many.
    snapshots: Option<CodeSnapshots>,
}

impl CodeWindow {
    pub(super) const LEN: usize = 256;

    pub(super) fn with_snapshots() -> Self {
        Self {
            snapshots: Some(Vec::new()),
            ..Self::default()
        }
    }

    pub(super) fn into_snapshots(self) -> Option<CodeSnapshots> {
        self.snapshots
    }

    /// Returns at least `least` bytes of code, if readable.
    pub(super) fn at(&mut self, avma: u64, least: usize, code: &dyn CodeSource) -> &[u8] {
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
