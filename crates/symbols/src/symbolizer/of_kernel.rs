//! Lookups in the kernel and its modules, from `/proc/kallsyms` and an optional `vmlinux`.

use super::{Lookup, Symbolizer};
use crate::elf_image::check;
use crate::kernel::{KernelSymbol, KernelSymbols, RunningKernel, VmlinuxError};
use crate::{Frames, Reason, Symbol, demangle};
use rprof_image::{ImageKey, ImageSource};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Shares one [`Symbol`] among the addresses in it. The key is its start.
#[derive(Default)]
struct SymbolCache(FxHashMap<u64, Arc<Symbol>>);

impl SymbolCache {
    fn get(&mut self, key: u64, make: impl FnOnce() -> Symbol) -> Arc<Symbol> {
        Arc::clone(self.0.entry(key).or_insert_with(|| Arc::new(make())))
    }
}

impl Symbolizer {
    /// Returns the difference between addresses of `/proc/kallsyms` and recorded ones, if the list
    /// is of the recorded kernel.
    pub(super) fn kernel_shift(&self, image: &ImageKey) -> Result<u64, Reason> {
        if !self.kernel_given {
            let running = rprof_image::running_kernel_build_id();
            check(image, running.as_ref(), Reason::ForeignKernel)?;
        }
        let symbols = self.kernel_symbols()?;
        let today = symbols.text_range().map(|text| text.start);
        Ok(shift(today, image))
    }

    /// Returns the difference between SVMAs of the `vmlinux` and recorded addresses, if it is of
    /// the recorded kernel.
    pub(super) fn vmlinux_shift(&self, image: &ImageKey) -> Option<u64> {
        let running = || rprof_image::running_kernel_build_id();
        // Without a recorded build-id, assume the running kernel.
        let expected = image.build_id().copied().or_else(running);
        let today = || {
            let is_here = expected.is_some() && expected == running();
            let symbols = self.kernel_symbols().ok().filter(|_| is_here)?;
            symbols.text_range().map(|text| text.start)
        };
        let start = image.recorded_start().or_else(today);
        let vmlinux = self.vmlinux.as_ref()?.as_ref();
        match vmlinux.map(|vmlinux| vmlinux.shift(expected.as_ref(), start)) {
            Ok(Ok(shift)) => Some(shift),
            Ok(Err(error)) => {
                self.refused.get_or_init(|| error);
                None
            }
            Err(error) => {
                self.refused.get_or_init(|| error.clone());
                None
            }
        }
    }

    /// Returns why the given `vmlinux` was not used for a kernel.
    #[must_use]
    pub fn refused_vmlinux(&self) -> Option<&VmlinuxError> {
        let unusable = self
            .vmlinux
            .as_ref()
            .and_then(|opened| opened.as_ref().err());
        self.refused.get().or(unusable)
    }

    pub(super) fn kernel_symbols(&self) -> Result<&RunningKernel, Reason> {
        let load = || {
            let loaded = RunningKernel::load(self.kernel_cache.as_ref());
            loaded.map_err(|error| Reason::from(&error))
        };
        self.kernel
            .get_or_init(load)
            .as_ref()
            .map_err(|reason| *reason)
    }

    /// Returns all symbols of the kernel, if the cached ones are insufficient.
    pub(super) fn whole_kernel(&self) -> Result<&KernelSymbols, Reason> {
        let symbols = match self.kernel_symbols()? {
            RunningKernel::Whole(symbols) => return Ok(symbols),
            stored => stored,
        };
        let load = || {
            let loaded = symbols.load_whole(self.kernel_cache.as_ref());
            loaded.map_err(|error| Reason::from(&error))
        };
        let whole = self.whole_kernel.get_or_init(load);
        whole.as_ref().map_err(|reason| *reason)
    }

    fn kernel_functions(&self, avmas: &[u64]) -> Result<Vec<Option<KernelSymbol<'_>>>, Reason> {
        let symbols = self.kernel_symbols()?;
        if avmas.iter().all(|avma| symbols.is_certain(*avma)) {
            return Ok(avmas.iter().map(|avma| symbols.lookup(*avma)).collect());
        }
        let symbols = self.whole_kernel()?;
        Ok(avmas.iter().map(|avma| symbols.lookup(*avma)).collect())
    }

    pub(super) fn resolve_kernel(
        &self,
        image: &ImageKey,
        shift: Result<u64, Reason>,
        offsets: &[u64],
    ) -> Vec<Lookup> {
        let found = shift.and_then(|shift| {
            let avmas = offsets.iter().map(|offset| offset.wrapping_add(shift));
            let avmas: Vec<u64> = avmas.collect();
            let functions = self.kernel_functions(&avmas)?;
            Ok(avmas.into_iter().zip(functions))
        });
        let found = match found {
            Ok(found) => found,
            Err(reason) => return vec![Err(reason); offsets.len()],
        };
        let wanted = match image.source() {
            ImageSource::KernelModule(name) => Some(&**name),
            _ => None,
        };
        let mut names = SymbolCache::default();
        let resolve = |(avma, found): (u64, Option<KernelSymbol<'_>>)| {
            let found = found.ok_or(Reason::NoSymbolAtAddress)?;
            // Recordings that treat the kernel as one image name no modules. Otherwise another
            // module may be loaded here now.
            if wanted.is_some() && found.module != wanted {
                return Err(Reason::ForeignModule);
            }
            let symbol = names.get(found.start, || Symbol {
                name: demangle::demangle(found.name, self.style).into(),
                raw: found.name.into(),
                start: found.start,
                size: found.size,
                module: found.module.map(Into::into),
                located: None,
            });
            Ok(Frames::new(symbol, avma - found.start))
        };
        found.map(resolve).collect()
    }
}

/// Returns the distance between recorded and current start. 0 if either address was hidden.
pub(super) fn shift(today: Option<u64>, image: &ImageKey) -> u64 {
    match (today, image.recorded_start()) {
        (Some(today), Some(recorded)) if today != 0 && recorded != 0 => {
            today.wrapping_sub(recorded)
        }
        _ => 0,
    }
}
