//! Lookup of functions for uprobes.

use std::path::Path;

use rprof_events::Resolver;
use rprof_image::ImageFile;
use rprof_symbols::elf::function_offset;

/// Resolver that reads symbol tables of programs.
pub(crate) struct ProgramFunctions;

impl Resolver for ProgramFunctions {
    fn file_offset(&self, program: &Path, function: &str) -> Result<u64, String> {
        let shown = program.display();
        let file = ImageFile::open(program).map_err(|why| format!("cannot use {shown}: {why}"))?;
        function_offset(file.bytes(), function)
            .map_err(|why| format!("cannot set a probe on `{function}` in {shown}: {why}"))
    }
}
