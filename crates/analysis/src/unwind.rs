//! Unwinds stack dumps (`perf record --call-graph dwarf`, simpleperf), on all cores.
//!
//! Images are checked by build-id or inode, as for symbols. All workers share the unwind tables,
//! compiled on first use.

use std::sync::{Arc, OnceLock};

use rprof_image::{ImageFile, MemoryBudget, build_id_of, vdso_image};
use rprof_perfdata::Feature;
use rprof_processes::{Image, ImageId, ImageKind, MapState, MapView};
use rprof_records::{Attr, ContextMarker, Sample, SampleType};
use rprof_symbols::Symbolizer;
use rprof_unwind::{
    Arch, Module, Modules, Registers, StackDump, StackFrame, UnwindTable, Unwinder,
};

use crate::image_lookup::ImageLookup;
use crate::location::CodeRegion;
use crate::sideband_pass::Index;
use crate::stack_end::StackEnd;

/// Maximum number of frames, as many as a record can hold.
const MAX_FRAMES: usize = 8_000;

pub(crate) fn has_dumps(attr: &Attr) -> bool {
    (attr.sample_type).contains(SampleType::REGS_USER | SampleType::STACK_USER)
}

/// Unwind tables by image, for all workers.
pub(crate) struct Unwinding<'a> {
    arch: Arch,
    images: &'a [Image],
    tables: Vec<OnceLock<Option<UnwindTable>>>,
    origin: ImageLookup,
    symbolizer: &'a Symbolizer,
    index: &'a Index<'a>,
}

impl<'a> Unwinding<'a> {
    /// Returns `None` without stack dumps, or for an unsupported architecture.
    pub(crate) fn new(index: &'a Index<'a>, symbolizer: &'a Symbolizer) -> Option<Self> {
        let events = index.data.events().list();
        if !events.iter().any(|event| has_dumps(&event.attr)) {
            return None;
        }
        let arch = index.data.features().string(Feature::ARCH);
        let arch = match arch.as_deref().unwrap_or(std::env::consts::ARCH) {
            "x86_64" => Arch::X86_64,
            "aarch64" | "arm64" => Arch::Aarch64,
            "i386" | "i486" | "i586" | "i686" | "x86" => Arch::X86,
            _ => return None,
        };
        let images = index.timeline.images();
        Some(Unwinding {
            arch,
            images,
            tables: images.iter().map(|_| OnceLock::new()).collect(),
            origin: ImageLookup::of(index.data, index.machine, symbolizer.has_root()),
            symbolizer,
            index,
        })
    }

    fn table(&self, image: ImageId) -> Option<&UnwindTable> {
        let open = || {
            let one = self.images.get(image.0 as usize)?;
            let runtimes = &self.index.runtimes;
            let kept = runtimes.image(one);
            if let Some((bytes, _lease)) = kept.and_then(|kept| runtimes.contents(kept)) {
                return parse(&bytes, &self.symbolizer.memory().strangers);
            }
            let key =
                self.origin
                    .target(CodeRegion::Image(image), self.index.timeline.images(), None);
            let key = key.ok()?;
            if one.kind == ImageKind::Vdso {
                let bytes = vdso_image()?;
                let id = build_id_of(&bytes[..]);
                let is_right = match (key.build_id(), id) {
                    (Some(wanted), Some(found)) => wanted.matches(&found),
                    (wanted, _) => wanted.is_none(),
                };
                return UnwindTable::parse(&bytes).ok().filter(|_| is_right);
            }
            let file: ImageFile = self.symbolizer.image_file(&key).ok()?;
            parse(file.bytes(), &self.symbolizer.memory().ours)
        };
        let slot = self.tables.get(image.0 as usize)?;
        slot.get_or_init(open).as_ref()
    }
}

/// Compiles an unwind table. It lives until the end, so its memory is never released.
fn parse(image: &[u8], memory: &MemoryBudget) -> Option<UnwindTable> {
    let table = UnwindTable::parse(image).ok()?;
    memory.take(table.memory() as u64)?.keep();
    Some(table)
}

/// Unwinder of one worker.
pub(crate) struct Stacks {
    unwinder: Unwinder,
    frames: Vec<StackFrame>,
    values: Vec<u64>,
    chain: Vec<u64>,
}

impl Stacks {
    pub(crate) fn new(unwinding: &Unwinding<'_>) -> Stacks {
        Stacks {
            unwinder: Unwinder::new(unwinding.arch),
            frames: Vec::new(),
            values: Vec::new(),
            chain: Vec::new(),
        }
    }

    /// Returns a sample's callchain, leaf first, with markers. `None` without a stack dump, and for
    /// 32-bit ARM. `map` must be the mappings of `state`.
    pub(crate) fn unwind(
        &mut self,
        shared: &Unwinding<'_>,
        sample: &Sample<'_>,
        attr: &Attr,
        (map, state): (MapView<'_>, MapState),
    ) -> Option<(&[u64], StackEnd)> {
        let (registers, dump) = (sample.regs_user()?, sample.stack_user()?);
        let arch = shared.arch.of_sample(registers.abi)?;
        self.values.clear();
        self.values.extend(registers.iter().map(|(_, value)| value));
        let mask = attr.sample_regs_user;
        let registers = Registers::from_perf(arch, mask, &self.values)?;
        let bytes = dump.bytes.to_cow();
        let dump = StackDump::new(registers.sp(), &bytes);
        let code = Code {
            shared,
            map,
            pid: sample.pid().unwrap_or(-1),
            time: sample.time().unwrap_or(u64::MAX),
            generation: u64::from(state.space.0) << 32 | u64::from(state.epoch),
        };
        let frames = &mut self.frames;
        let end = (self.unwinder).unwind(&registers, &dump, &code, MAX_FRAMES, frames);

        self.chain.clear();
        let user = [ContextMarker::USER.0, ContextMarker::USER_DEFERRED.0];
        let recorded = sample.callchain().into_iter().flat_map(|c| c.iter());
        self.chain
            .extend(recorded.take_while(|entry| !user.contains(entry)));
        self.chain.push(ContextMarker::USER.0);
        self.chain
            .extend(self.frames.iter().map(|frame| frame.address));
        Some((&self.chain, end.into()))
    }
}

struct Code<'a> {
    shared: &'a Unwinding<'a>,
    map: MapView<'a>,
    pid: i32,
    time: u64,
    generation: u64,
}

impl Modules for Code<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        let mapping = self.map.mapping_at(avma).filter(|m| m.executable)?;
        let table = self.shared.table(mapping.image);
        let bias = table.and_then(|table| table.bias(mapping.start, mapping.file_offset));
        Some(Module {
            table: table.filter(|_| bias.is_some()),
            bias: bias.unwrap_or(0),
        })
    }

    fn jit_table(&self, avma: u64) -> Option<Arc<UnwindTable>> {
        let runtimes = &self.shared.index.runtimes;
        runtimes.unwinding(self.shared.arch, self.pid, self.time, avma)
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation)
    }
}
