//! [`RunningKernel`]: symbols of the running kernel, from the disk cache or from `/proc/kallsyms`.

use super::stored::{self, StoredSymbols};
use super::{KernelError, KernelSymbol, KernelSymbols, split_line};
use rprof_image::loaded_modules;
use rprof_output::PrivateCache;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;

/// Bytes of `/proc/kallsyms` in the cache key.
const HEAD: u64 = 1024;

#[derive(Debug)]
pub(crate) enum RunningKernel {
    Whole(KernelSymbols),
    /// Cached symbols. They may be incomplete, and blocks may prove damaged.
    Stored(StoredSymbols),
}

impl RunningKernel {
    /// Loads the symbols from the cache, if they are of this boot with the same modules. Otherwise
    /// reads `/proc/kallsyms` and fills the cache.
    ///
    /// # Errors
    /// See [`KernelSymbols::load_running`].
    pub(crate) fn load(cache: Option<&PrivateCache>) -> Result<Self, KernelError> {
        let stored = cache.and_then(|cache| StoredSymbols::open(cache, &running_key()?));
        match stored {
            Some(stored) => Ok(Self::Stored(stored)),
            None => Self::list(cache).map(Self::Whole),
        }
    }

    /// Reads the complete list and stores it in the cache, if given.
    ///
    /// # Errors
    /// See [`KernelSymbols::load_running`].
    fn list(cache: Option<&PrivateCache>) -> Result<KernelSymbols, KernelError> {
        let Some((cache, key)) = cache.and_then(|cache| Some((cache, running_key()?))) else {
            return KernelSymbols::load_running();
        };
        let symbols = KernelSymbols::load_running()?;
        // Not stored if modules changed meanwhile. A write error only costs the next run time.
        if let Some(file) = stored::encode(&symbols, &key).filter(|_| running_key() == Some(key)) {
            cache.write(stored::FILE, &file).ok();
        }
        Ok(symbols)
    }

    /// Reads the complete list, after these symbols proved insufficient. Replaces a damaged cache.
    ///
    /// # Errors
    /// See [`KernelSymbols::load_running`].
    pub(crate) fn load_whole(
        &self,
        cache: Option<&PrivateCache>,
    ) -> Result<KernelSymbols, KernelError> {
        let is_damaged = match self {
            Self::Whole(_) => false,
            Self::Stored(stored) => stored.is_damaged(),
        };
        Self::list(cache.filter(|_| is_damaged))
    }

    pub(crate) fn text_range(&self) -> Option<Range<u64>> {
        match self {
            Self::Whole(symbols) => symbols.text_range(),
            Self::Stored(stored) => Some(stored.text_range()),
        }
    }

    /// Returns true if a lookup is reliable. Cached symbols lack BPF programs and similar code,
    /// which may be anywhere outside the code of the kernel and its modules.
    pub(crate) fn is_certain(&self, avma: u64) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Stored(stored) => stored.is_certain(avma),
        }
    }

    pub(crate) fn lookup(&self, avma: u64) -> Option<KernelSymbol<'_>> {
        match self {
            Self::Whole(symbols) => symbols.lookup(avma),
            Self::Stored(stored) => stored.lookup(avma),
        }
    }
}

/// Returns the cache key: boot id, modules, and the head of the list. The head ensures that a user
/// without permission sees no addresses. `None` if the list may not be stored.
fn running_key() -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let list = File::open("/proc/kallsyms").ok()?;
    list.take(HEAD).read_to_end(&mut head).ok()?;
    let mut lines = head.split(|byte| *byte == b'\n').filter_map(split_line);
    let shows_addresses = lines.any(|(start, ..)| start != 0);
    let mut key = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    for module in loaded_modules() {
        // A module in transition.
        if !module.is_live || module.start == 0 {
            return None;
        }
        let line = format!("{} {:x} {:x}\n", module.name, module.start, module.size);
        key.extend(line.bytes());
    }
    key.extend(head);
    shows_addresses.then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn is_stored(symbols: &RunningKernel) -> bool {
        matches!(symbols, RunningKernel::Stored(_))
    }

    #[test]
    fn symbols_of_the_running_kernel_are_stored_unless_they_are_hidden() {
        let folder = rprof_output::private_folder().unwrap();
        let home = folder.path().as_os_str().to_owned();
        let get = |name| (name == "HOME").then(|| home.clone());
        let cache = PrivateCache::from_variables(get).unwrap();
        let first = RunningKernel::load(Some(&cache));
        if running_key().is_none() {
            assert!(!cache.path().exists(), "{first:?}");
        }
        rprof_testing::needs!(Kernel);
        let first = first.unwrap();
        let load = || RunningKernel::load(Some(&cache)).unwrap();
        let second = load();
        assert!(!is_stored(&first) && is_stored(&second));
        assert_eq!(second.text_range(), first.text_range());
        let text = first.text_range().unwrap();
        for avma in text.clone().step_by(997) {
            assert!(second.is_certain(avma));
            assert_eq!(second.lookup(avma), first.lookup(avma), "{avma:#x}");
        }
        let path = cache.path().join(stored::FILE);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // Damage in a block is detected on reading it, and the cache is rewritten.
        let third = load();
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle..].fill(7);
        fs::write(&path, &damaged).unwrap();
        assert!(is_stored(&load()), "the beginning is as it was");
        let last = text.end - 1;
        assert!(!third.is_certain(last) && third.lookup(last).is_none());
        let listed = third.load_whole(Some(&cache)).unwrap();
        assert_eq!(listed.lookup(last), first.lookup(last));
        assert_eq!(fs::read(&path).unwrap(), whole);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(load().is_certain(last));

        fs::write(&path, b"something else").unwrap();
        assert!(!is_stored(&load()) && is_stored(&load()));
    }
}
