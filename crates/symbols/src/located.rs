//! Functions without symbols, located by the image's unwinding information.

use crate::debug::DebugFiles;
use crate::elf_image::ElfImage;
use crate::frames::{Frames, Symbol};
use crate::pages::Pages;
use rprof_image::Reason;
use std::sync::Arc;

/// Symbols of located functions, shared by ascending SVMAs.
#[derive(Debug, Default)]
pub(crate) struct LocatedNames {
    file_name: Option<Option<String>>,
    last: Option<Arc<Symbol>>,
}

impl LocatedNames {
    pub(crate) fn frames<D: Pages>(
        &mut self,
        image: &ElfImage<D>,
        svma: u64,
        reason: Reason,
        places: &DebugFiles,
    ) -> Option<Frames> {
        if reason == Reason::OutsideImage {
            return None;
        }
        let range = image.functions(places)?.at(image.bytes(), svma)?;
        let offset = svma.checked_sub(range.start)?;
        let known = self.last.as_ref();
        let known =
            known.filter(|known| known.start == range.start && known.located == Some(reason));
        let symbol = match known {
            Some(known) => Arc::clone(known),
            None => {
                let name = self.file_name.get_or_insert_with(|| image.file_name());
                let name: Box<str> = format!("{}+{:#x}", name.as_ref()?, range.start).into();
                Arc::new(Symbol {
                    raw: name.clone(),
                    name,
                    start: range.start,
                    size: range.end - range.start,
                    module: None,
                    located: Some(reason),
                })
            }
        };
        self.last = Some(Arc::clone(&symbol));
        Some(Frames::new(symbol, offset))
    }
}
