//! [`Names`]: deduplicated functions and files of places.

use rprof_symbols::SourceLine;
use rustc_hash::FxHashMap;

use crate::annotation::{LineKey, Place};

#[derive(Debug, Default)]
pub(crate) struct Names {
    functions: Vec<Box<str>>,
    by_function: FxHashMap<Box<str>, u32>,
    files: Vec<Box<str>>,
    by_file: FxHashMap<Box<str>, u32>,
}

impl Names {
    pub(crate) fn place(&mut self, function: &str, line: Option<&SourceLine>) -> Place {
        let intern = |all: &mut Vec<Box<str>>, known: &mut FxHashMap<Box<str>, u32>, text: &str| {
            if let Some(id) = known.get(text) {
                return *id;
            }
            let id = all.len() as u32;
            all.push(text.into());
            known.insert(text.into(), id);
            id
        };
        Place {
            function: intern(&mut self.functions, &mut self.by_function, function),
            line: line.map(|line| LineKey {
                file: intern(&mut self.files, &mut self.by_file, &line.file),
                line: line.line,
            }),
        }
    }

    pub(crate) fn function(&self, id: u32) -> &str {
        self.functions.get(id as usize).map_or("", |name| name)
    }

    pub(crate) fn into_parts(self) -> (Vec<Box<str>>, Vec<Box<str>>) {
        (self.files, self.functions)
    }
}
