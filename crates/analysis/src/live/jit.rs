//! [`JitFiles`]: names of JIT code, from the files of running processes.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rprof_jit::{InterpretedNames, JitDump, JitFunction, LiveFiles, PerfMap};
use rprof_symbols::{Lookup, Reason};
use rustc_hash::FxHashMap;

use crate::jit::frames;

/// Maximum bytes of one file, and of all cached files.
const MAX_BYTES: u64 = 64 << 20;

/// Process whose files may describe JIT code: itself or an ancestor.
#[derive(Clone, Debug)]
pub(super) struct JitOwner {
    pub(super) pid: i32,
    pub(super) jitdumps: Vec<PathBuf>,
}

#[derive(Debug, Default)]
pub(super) struct JitFiles {
    processes: FxHashMap<i32, Process>,
    /// Total bytes of the cached files.
    kept: u64,
}

#[derive(Debug)]
struct Process {
    files: LiveFiles,
    map: ReadFile<PerfMap>,
    dumps: Vec<ReadFile<JitDump>>,
}

/// Parsed file with its length at reading; `None` if there is nothing to read.
#[derive(Debug)]
struct ReadFile<T> {
    len: u64,
    was_there: bool,
    contents: Option<T>,
}

impl<T> Default for ReadFile<T> {
    fn default() -> Self {
        ReadFile {
            len: 0,
            was_there: false,
            contents: None,
        }
    }
}

impl<T> ReadFile<T> {
    /// Reads a file again if its length has changed. Returns the bytes read.
    fn refresh(
        &mut self,
        files: &mut LiveFiles,
        number: usize,
        parse: impl FnOnce(Vec<u8>) -> Option<T>,
    ) -> u64 {
        let Ok(Some(file)) = files.open(number) else {
            return 0;
        };
        self.was_there = true;
        let len = file.len().unwrap_or(0);
        if len == self.len || len > MAX_BYTES || file.is_mostly_holes() {
            return 0;
        }
        self.len = len;
        let bytes = file.read().ok().filter(|bytes| !bytes.is_empty());
        self.contents = bytes.and_then(parse);
        len
    }
}

impl Process {
    fn refresh(&mut self, jitdumps: &[PathBuf]) -> u64 {
        for path in jitdumps {
            self.files.add_jitdump(path.as_os_str().as_bytes());
        }
        let dumps = self.files.jitdumps();
        let files = &mut self.files;
        let mut read = (self.map).refresh(files, dumps, |bytes| Some(PerfMap::parse(bytes)));
        self.dumps.resize_with(dumps, ReadFile::default);
        for (number, dump) in self.dumps.iter_mut().enumerate() {
            read += dump.refresh(files, number, |bytes| JitDump::parse(&bytes).ok());
        }
        read
    }

    fn has_files(&self) -> bool {
        self.map.was_there || self.dumps.iter().any(|dump| dump.was_there)
    }

    fn find(&self, avma: u64) -> Option<rprof_symbols::Frames> {
        let dumps = self.dumps.iter().filter_map(|dump| dump.contents.as_ref());
        let in_dumps = dumps.rev().find_map(|dump| {
            let number = dump.find(avma, u64::MAX)?;
            let line = dump.line(number, avma);
            Some(frames(&dump.function(number)?, avma, line))
        });
        in_dumps.or_else(|| {
            let function = self.map.contents.as_ref()?.lookup(avma)?;
            Some(frames(&function, avma, None))
        })
    }
}

impl JitFiles {
    /// Looks up addresses of a process. `owners` are the process and its ancestors. The second
    /// value is true if files exist, so that unnamed addresses may get names later.
    pub(super) fn resolve(&mut self, owners: &[JitOwner], avmas: &[u64]) -> (Vec<Lookup>, bool) {
        if self.kept > MAX_BYTES {
            self.processes.clear();
            self.kept = 0;
        }
        let mut found: Vec<Lookup> = vec![Err(Reason::JitWithoutMap); avmas.len()];
        let mut has_files = false;
        for owner in owners {
            let process = self.processes.entry(owner.pid);
            let process = process.or_insert_with(|| Process {
                files: LiveFiles::new(owner.pid),
                map: ReadFile::default(),
                dumps: Vec::new(),
            });
            self.kept += process.refresh(&owner.jitdumps);
            has_files |= process.has_files();
            for (found, avma) in found.iter_mut().zip(avmas) {
                if found.is_err()
                    && let Some(frames) = process.find(*avma)
                {
                    *found = Ok(frames);
                }
            }
        }
        (found, has_files)
    }
}

pub(super) fn name_interpreted(names: &InterpretedNames, avmas: &[u64], found: &mut [Lookup]) {
    for (found, avma) in found.iter_mut().zip(avmas) {
        if let Some(name) = names.name_of(*avma) {
            let range = InterpretedNames::range_at(*avma);
            let function = JitFunction {
                name: (&*name).into(),
                start: range.start,
                size: range.end - range.start,
            };
            *found = Ok(frames(&function, *avma, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_a_map_that_grows() {
        let pid = std::process::id() as i32;
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let owners = [JitOwner {
            pid,
            jitdumps: Vec::new(),
        }];
        let mut files = JitFiles::default();
        let names = |(lookups, has_files): (Vec<Lookup>, bool)| {
            let name = |lookup: Lookup| lookup.ok().map(|frames| frames.symbol().name.to_string());
            let names: Vec<_> = lookups.into_iter().map(name).collect();
            (names, has_files)
        };
        let avmas = [0x1010, 0x2010];
        assert_eq!(
            names(files.resolve(&owners, &avmas)),
            (vec![None, None], false)
        );
        let first = Some("first".to_owned());
        std::fs::write(&path, "1000 20 first\n").unwrap();
        assert_eq!(
            names(files.resolve(&owners, &avmas)),
            (vec![first.clone(), None], true)
        );
        std::fs::write(&path, "1000 20 first\n2000 20 second\n").unwrap();
        let both = names(files.resolve(&owners, &avmas));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(both, (vec![first, Some("second".to_owned())], true));
    }
}
