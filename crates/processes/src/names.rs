//! Interned thread names.

use std::collections::HashMap;

use crate::ids::CommId;

/// Names are untrusted, so hashing uses random keys.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    names: Vec<Box<[u8]>>,
    ids: HashMap<Box<[u8]>, CommId>,
}

impl NameTable {
    pub(crate) fn intern(&mut self, name: &[u8]) -> CommId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = CommId(self.names.len() as u32);
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn finish(self) -> Box<[Box<[u8]>]> {
        self.names.into_boxed_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_one() {
        let mut table = NameTable::default();
        let a = table.intern(b"bash");
        assert_eq!(a, table.intern(b"bash"));
        assert_ne!(a, table.intern(b""));
        assert_eq!(table.finish().len(), 2);
    }
}
