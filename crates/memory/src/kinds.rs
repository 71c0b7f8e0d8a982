//! Kinds of mappings, by name.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

/// Maximum number of kinds. A process chooses the names of its files, so they are limited.
const MAX_KINDS: usize = 1 << 14;

/// Name of all kinds beyond the limit.
const OTHERS: &[u8] = b"[other mappings]";

/// Number of a kind of mapping in a [`Ledger`](crate::Ledger).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(pub(crate) u32);

#[derive(Debug, Default)]
pub(crate) struct Kinds {
    ids: FxHashMap<Box<[u8]>, u32>,
    names: Vec<Box<[u8]>>,
}

impl Kinds {
    /// Returns the kind of a mapping by its name in `/proc/PID/maps` or in an MMAP2 record.
    pub(crate) fn intern(&mut self, name: &[u8]) -> KindId {
        let kind = kind_of(name);
        if let Some(id) = self.ids.get(&*kind) {
            return KindId(*id);
        }
        if self.names.len() >= MAX_KINDS && *kind != *OTHERS {
            return self.intern(OTHERS);
        }
        let id = self.names.len() as u32;
        let kind: Box<[u8]> = kind.into();
        self.names.push(kind.clone());
        self.ids.insert(kind, id);
        KindId(id)
    }

    pub(crate) fn name(&self, kind: KindId) -> &[u8] {
        self.names.get(kind.0 as usize).map_or(OTHERS, |name| name)
    }
}

/// Returns the kind of a mapping: `[heap]`, `[stack]`, `[anon]`, `[shared memory]`, the path of a
/// file, or the name that the program gave to anonymous memory.
fn kind_of(name: &[u8]) -> Cow<'_, [u8]> {
    let is_shared = [
        &b"/memfd:"[..],
        b"/dev/shm/",
        b"/dev/zero",
        b"/SYSV",
        b"[anon_shmem:",
    ];
    match name {
        b"" | b"//anon" => b"[anon]"[..].into(),
        name if is_shared.iter().any(|start| name.starts_with(start)) => {
            b"[shared memory]"[..].into()
        }
        // Old kernels name stacks of threads, too: `[stack:1234]`.
        name if name.starts_with(b"[stack") => b"[stack]"[..].into(),
        name => name.strip_suffix(b" (deleted)").unwrap_or(name).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_as_in_smaps_and_shared_memory_is_one() {
        for (name, kind) in [
            (&b""[..], &b"[anon]"[..]),
            (b"//anon", b"[anon]"),
            (b"[heap]", b"[heap]"),
            (b"[stack:77]", b"[stack]"),
            (b"/usr/lib/libc.so.6", b"/usr/lib/libc.so.6"),
            (b"/tmp/gone (deleted)", b"/tmp/gone"),
            (b"/memfd:x (deleted)", b"[shared memory]"),
            (b"/dev/zero (deleted)", b"[shared memory]"),
            (b"/SYSV00000000 (deleted)", b"[shared memory]"),
            (b"[anon:arena]", b"[anon:arena]"),
        ] {
            assert_eq!(*kind_of(name), *kind);
        }
    }

    #[test]
    fn names_beyond_the_limit_share_one_kind() {
        let mut kinds = Kinds::default();
        for n in 0..MAX_KINDS + 10 {
            kinds.intern(format!("/{n}").as_bytes());
        }
        assert_eq!(kinds.names.len(), MAX_KINDS + 1);
        let last = kinds.intern(b"/new");
        assert_eq!(kinds.name(last), OTHERS);
    }
}
