//! Locations: addresses as image and offset, equal across processes.

use rprof_jit::may_hold_jit_code;
use rprof_processes::{ImageId, ImageKind, MapView, Timeline};
use rprof_records::{ContextMarker, CpuMode};

use crate::jit::{JitCode, Runtimes};

/// Region and lookup address of a callchain entry. Equal locations have equal symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    pub(crate) region: CodeRegion,
    /// A file offset in user images, else an address. Callers have the return address - 1.
    pub(crate) lookup: u64,
    /// True for a return address.
    pub(crate) caller: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CodeRegion {
    Image(ImageId),
    /// Executable anonymous memory of one process: JIT code without a description.
    Anonymous {
        pid: i32,
        image: ImageId,
    },
    /// JIT code with a perf map or jitdump.
    Jit(JitCode),
    /// The kernel or a module, with the recorded image of the address, if any.
    Kernel(Option<ImageId>),
    /// The vsyscall page of x86-64, which has no mapping.
    Vsyscall,
    /// Outside all mappings.
    Unmapped,
    Hypervisor,
    GuestKernel,
    GuestUser,
}

#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) user: MapView<'a>,
    pub(crate) kernel: MapView<'a>,
    pub(crate) pid: i32,
    pub(crate) time: u64,
    pub(crate) runtimes: &'a Runtimes<'a>,
}

impl Context<'_> {
    pub(crate) fn locate(&self, address: u64, mode: CpuMode, caller: bool) -> Location {
        let lookup = if caller {
            address.wrapping_sub(1)
        } else {
            address
        };
        let at = |region, lookup| Location {
            region,
            lookup,
            caller,
        };
        match mode {
            CpuMode::Kernel => {
                let found = self.kernel.resolve(lookup);
                at(CodeRegion::Kernel(found.map(|r| r.image)), lookup)
            }
            CpuMode::User | CpuMode::Unknown if rprof_image::vsyscall(lookup).is_some() => {
                at(CodeRegion::Vsyscall, lookup)
            }
            CpuMode::User | CpuMode::Unknown => {
                let found = self.user.resolve(lookup);
                let image = found.and_then(|r| self.timeline.image(r.image));
                let kind = image.map(|image| image.kind);
                if kind.is_none_or(may_hold_jit_code)
                    && let Some(code) = self.runtimes.find(self.pid, self.time, lookup)
                {
                    return at(CodeRegion::Jit(code), lookup);
                }
                match (found, kind) {
                    (None, _) => at(CodeRegion::Unmapped, lookup),
                    (Some(r), Some(ImageKind::Anonymous)) => at(
                        CodeRegion::Anonymous {
                            pid: self.pid,
                            image: r.image,
                        },
                        lookup,
                    ),
                    (Some(r), _) => at(CodeRegion::Image(r.image), r.offset_in_file),
                }
            }
            CpuMode::Hypervisor => at(CodeRegion::Hypervisor, lookup),
            CpuMode::GuestKernel => at(CodeRegion::GuestKernel, lookup),
            CpuMode::GuestUser => at(CodeRegion::GuestUser, lookup),
        }
    }
}

/// Iterates over a callchain's addresses, each with its mode and true for return addresses. The
/// address after a marker is an instruction pointer. `caller` tells whether the first entry is a
/// return address. The chain must not contain a cookie: see `sample_pass::pending::callchain`.
pub(crate) fn addresses(
    chain: impl Iterator<Item = u64>,
    mode: CpuMode,
    caller: bool,
) -> impl Iterator<Item = (u64, CpuMode, bool)> {
    let (mut mode, mut caller) = (mode, caller);
    chain.filter_map(move |entry| match mode_after(entry) {
        Some(next) => {
            (mode, caller) = (next, false);
            None
        }
        None => Some((entry, mode, std::mem::replace(&mut caller, true))),
    })
}

/// Returns the first address of a callchain, its mode, and the index of the next entry.
#[inline]
pub(crate) fn leaf(
    chain: impl Iterator<Item = u64>,
    mode: CpuMode,
) -> Option<(u64, CpuMode, usize)> {
    let mut mode = mode;
    for (at, entry) in chain.enumerate() {
        match mode_after(entry) {
            Some(next) => mode = next,
            None => return Some((entry, mode, at + 1)),
        }
    }
    None
}

/// Returns the mode that a context marker starts; `None` for an address.
///
/// In code without frame pointers, the kernel follows any value in the frame pointer register, such
/// as -1, in the range of the markers. Such values count as unmapped addresses. (perf drops the
/// whole callchain.)
#[inline]
fn mode_after(entry: u64) -> Option<CpuMode> {
    if !ContextMarker::is_marker(entry) {
        return None;
    }
    match ContextMarker(entry) {
        ContextMarker::KERNEL => Some(CpuMode::Kernel),
        ContextMarker::USER => Some(CpuMode::User),
        ContextMarker::GUEST_KERNEL => Some(CpuMode::GuestKernel),
        ContextMarker::GUEST | ContextMarker::GUEST_USER => Some(CpuMode::GuestUser),
        ContextMarker::HV => Some(CpuMode::Hypervisor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_change_the_mode_and_begin_a_side() {
        let chain = [
            ContextMarker::KERNEL.0,
            0xffff_ffff_8100_0010,
            0xffff_ffff_8100_0020,
            ContextMarker::USER.0,
            0x1000,
            0x2000,
        ];
        let walked: Vec<_> = addresses(chain.into_iter(), CpuMode::User, false).collect();
        assert_eq!(
            walked,
            [
                (0xffff_ffff_8100_0010, CpuMode::Kernel, false),
                (0xffff_ffff_8100_0020, CpuMode::Kernel, true),
                (0x1000, CpuMode::User, false),
                (0x2000, CpuMode::User, true),
            ]
        );
    }

    #[test]
    fn garbage_in_the_markers_range_is_an_address() {
        let chain = [ContextMarker::USER.0, 0x1000, u64::MAX, 0x2000];
        let walked: Vec<_> = addresses(chain.into_iter(), CpuMode::Kernel, false).collect();
        assert_eq!(walked[1], (u64::MAX, CpuMode::User, true));
        assert_eq!(walked[2], (0x2000, CpuMode::User, true));
    }

    #[test]
    fn without_markers_the_samples_mode_holds() {
        let walked: Vec<_> = addresses([1, 2].into_iter(), CpuMode::Kernel, false).collect();
        assert_eq!(
            walked,
            [(1, CpuMode::Kernel, false), (2, CpuMode::Kernel, true)]
        );
    }
}
