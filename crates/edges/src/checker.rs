//! [`Checker`]: checks pairs of frames, with the images of all.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Before, Code, sweep};
use crate::decode::{Flow, Target};
use crate::elf;
use crate::entries::Entries;
use crate::image::{Image, Piece, Slot};
use crate::reach::{Reach, pointer, reach, resolved};
use crate::verdict::EdgeVerdict;

/// Maximum number of images between a call and its callee.
const MAX_IMAGES: u32 = 4;

/// Calls that Go's signal handlers inject: they return to the interrupted code.
const INJECTED: [&str; 4] = [
    "runtime.sigpanic",
    "runtime.sigpanic0",
    "runtime.asyncPreempt",
    "runtime.debugCallV2",
];

/// Maximum number of bytes from the start of `__start_context` to behind its load of the stack pointer.
const LONGEST_START: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// Image of the frame; `None` for generated code and missing files.
    pub(crate) image: Option<usize>,
    /// Address stated in the image. A return address, unless `is_exact`.
    pub(crate) address: u64,
    /// True for the innermost frame, for code that a signal interrupted, and for trampolines.
    pub(crate) is_exact: bool,
    /// True for the trampoline that a signal handler returns to.
    pub(crate) is_trampoline: bool,
}

impl Frame {
    /// Returns the address of the instruction that was being executed.
    pub(crate) fn lookup(&self) -> u64 {
        self.address.wrapping_sub(u64::from(!self.is_exact))
    }
}

/// An image with caches.
#[derive(Debug)]
struct Loaded {
    code: Code,
    entries: Option<Entries>,
    reached: FxHashMap<u64, Rc<Reach>>,
}

/// Result of following names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Yes(EdgeVerdict),
    /// A jump through a pointer, or an unknown image, is on the way.
    Maybe,
    No,
}

/// Checks pairs of frames, and caches the results.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    loaded: Vec<Loaded>,
    by_name: FxHashMap<Box<str>, Option<usize>>,
    verdicts: FxHashMap<(Frame, Frame), EdgeVerdict>,
}

impl Checker {
    /// Returns the image of a name in a recording: a path, or `[vdso]`. Reads it at its first use.
    pub(crate) fn image_of(&mut self, name: &str) -> Option<usize> {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let data = match name {
            "[vdso]" => elf::vdso(),
            path if path.starts_with('/') => std::fs::read(path).ok(),
            _ => None,
        };
        let image = data.and_then(|data| elf::parse(name, data));
        let index = image.map(|image| {
            self.loaded.push(Loaded {
                code: Code::new(image),
                entries: None,
                reached: FxHashMap::default(),
            });
            self.loaded.len() - 1
        });
        self.by_name.insert(name.into(), index);
        index
    }

    /// Forgets the vdso of this machine if another image is for another processor.
    pub(crate) fn forget_foreign_vdso(&mut self) {
        let Some(vdso) = self.by_name.get_mut("[vdso]") else {
            return;
        };
        let arch = |loaded: &Loaded| loaded.code.image.arch;
        let of_vdso = vdso.and_then(|at| self.loaded.get(at)).map(arch);
        if self.loaded.iter().any(|other| Some(arch(other)) != of_vdso) {
            *vdso = None;
        }
    }

    pub(crate) fn image(&self, index: usize) -> &Image {
        &self.loaded[index].code.image
    }

    /// Returns the text of the instruction of a frame: its own, or the one before its return address.
    pub(crate) fn instruction(&self, frame: Frame) -> String {
        let Some(image) = frame.image.map(|at| self.image(at)) else {
            return String::new();
        };
        if frame.is_exact {
            return image.instruction(frame.address);
        }
        let last = image.piece(frame.lookup()).and_then(|piece| {
            let end = frame.address;
            sweep(image, Piece { end, ..piece }).last()
        });
        last.map_or_else(String::new, |(address, _)| image.instruction(address))
    }

    pub(crate) fn check(&mut self, callee: Frame, caller: Frame) -> EdgeVerdict {
        if let Some(known) = self.verdicts.get(&(callee, caller)) {
            return *known;
        }
        let verdict = match self.judge(callee, caller) {
            found if found.is_impossible() => self.explain(callee, caller).unwrap_or(found),
            found => found,
        };
        self.verdicts.insert((callee, caller), verdict);
        verdict
    }

    fn judge(&mut self, callee: Frame, caller: Frame) -> EdgeVerdict {
        let Some(at) = caller.image else {
            return EdgeVerdict::Unchecked;
        };
        if callee.is_trampoline {
            let is_code = self.image(at).is_code(caller.address);
            return if is_code {
                EdgeVerdict::Signal
            } else {
                EdgeVerdict::NoCall
            };
        }
        if caller.is_trampoline {
            return self.pointed(callee, EdgeVerdict::Signal);
        }
        let target = match self.loaded[at].code.before(caller.address) {
            Before::Call(target) => target,
            Before::Odd => return EdgeVerdict::Unclear,
            Before::Other => return EdgeVerdict::NoCall,
        };
        match target {
            Target::Address(address) => {
                let reach = self.reach(at, address);
                self.led(at, &reach, callee)
            }
            Target::Slot(slot) => match pointer(self.image(at), slot) {
                Some(Slot::Address(address)) => {
                    let reach = self.reach(at, address);
                    self.led(at, &reach, callee)
                }
                Some(slot) => {
                    let mut reach = Reach::default();
                    match slot {
                        Slot::Name(name) => reach.names.push(name),
                        Slot::Resolver(address) | Slot::Address(address) => {
                            reach.resolvers.push(address);
                        }
                    }
                    self.led(at, &reach, callee)
                }
                None => self.pointed(callee, EdgeVerdict::Indirect),
            },
            Target::Table | Target::Pointers(_) | Target::Pointer => {
                self.pointed(callee, EdgeVerdict::Indirect)
            }
        }
    }

    /// Judges a callee of a call through a pointer.
    fn pointed(&mut self, callee: Frame, verdict: EdgeVerdict) -> EdgeVerdict {
        let Some(at) = callee.image else {
            return EdgeVerdict::Unchecked;
        };
        let Loaded { code, entries, .. } = &mut self.loaded[at];
        let entries = entries.get_or_insert_with(|| Entries::find(&code.image));
        if entries.has(&code.image, callee.lookup()) {
            verdict
        } else {
            EdgeVerdict::NotNamed
        }
    }

    fn reach(&mut self, at: usize, target: u64) -> Rc<Reach> {
        let Loaded { code, reached, .. } = &mut self.loaded[at];
        let found = reached.entry(target);
        Rc::clone(found.or_insert_with(|| Rc::new(reach(code, target))))
    }

    /// Judges a callee of a call with known destinations in its image.
    fn led(&mut self, at: usize, reach: &Reach, callee: Frame) -> EdgeVerdict {
        let leads_out = !reach.names.is_empty() || !reach.resolvers.is_empty();
        let Some(callee_at) = callee.image else {
            let may = reach.is_open || leads_out;
            return if may {
                EdgeVerdict::Unchecked
            } else {
                EdgeVerdict::WrongTarget
            };
        };
        let lookup = callee.lookup();
        if callee_at == at
            && let Some(verdict) = within(self.image(at), reach, lookup)
        {
            return verdict;
        }
        let fit = self.follow(at, reach, callee);
        if let Fit::Yes(verdict) = fit {
            return verdict;
        }
        if leads_out && self.is_search(callee_at, lookup) {
            return EdgeVerdict::Lazy;
        }
        if reach.is_open || fit == Fit::Maybe {
            return self.pointed(callee, EdgeVerdict::Open);
        }
        EdgeVerdict::WrongTarget
    }

    /// Returns true for `_dl_runtime_resolve`, which jumps to the function that it has found.
    fn is_search(&mut self, at: usize, address: u64) -> bool {
        let code = &mut self.loaded[at].code;
        let piece = code.image.piece(address);
        code.image.is_linker && piece.is_some_and(|piece| code.exits(piece).is_open)
    }

    /// Follows names from image to image.
    fn follow(&mut self, at: usize, reach: &Reach, callee: Frame) -> Fit {
        let mut is_open = false;
        let mut seen: FxHashSet<Box<str>> = FxHashSet::default();
        // Each with the number of images on the way.
        let mut names: Vec<(Box<str>, u32)> =
            reach.names.iter().map(|name| (name.clone(), 0)).collect();
        let mut resolvers: Vec<(usize, u64, u32)> = reach
            .resolvers
            .iter()
            .map(|&address| (at, address, 0))
            .collect();
        let mut targets: Vec<(usize, u64, EdgeVerdict, u32)> = Vec::new();
        loop {
            if let Some((at, resolver, images)) = resolvers.pop() {
                let functions = resolved(&mut self.loaded[at].code, resolver);
                is_open |= functions.is_empty();
                let functions = functions.into_iter();
                targets.extend(functions.map(|to| (at, to, EdgeVerdict::Resolver, images)));
            } else if let Some((at, target, verdict, images)) = targets.pop() {
                let reach = self.reach(at, target);
                if callee.image == Some(at)
                    && let Some(found) = within(self.image(at), &reach, callee.lookup())
                {
                    let is_lazy = found == EdgeVerdict::Lazy;
                    return Fit::Yes(if is_lazy { found } else { verdict });
                }
                is_open |= reach.is_open;
                if images < MAX_IMAGES {
                    let further = reach.names.iter().cloned();
                    names.extend(further.map(|name| (name, images + 1)));
                    let further = reach.resolvers.iter();
                    resolvers.extend(further.map(|&address| (at, address, images + 1)));
                }
            } else if let Some((name, images)) = names.pop() {
                if !seen.insert(name.clone()) {
                    continue;
                }
                let mut is_known = false;
                for (at, loaded) in self.loaded.iter().enumerate() {
                    let definitions = loaded.code.image.definitions.get(&name);
                    for definition in definitions.into_iter().flatten() {
                        is_known = true;
                        if definition.is_resolver {
                            resolvers.push((at, definition.address, images));
                        } else {
                            targets.push((at, definition.address, EdgeVerdict::External, images));
                        }
                    }
                }
                is_open |= !is_known;
            } else {
                return if is_open { Fit::Maybe } else { Fit::No };
            }
        }
    }

    /// Returns the reason why a pair is possible although no call explains it.
    fn explain(&mut self, callee: Frame, caller: Frame) -> Option<EdgeVerdict> {
        let at = caller.image?;
        if self.is_split(callee) || self.is_split(caller) {
            return Some(EdgeVerdict::Switched);
        }
        let is_end = || ends_process(self.image(at), caller.address);
        if self.image(at).is_root(caller.address) || is_end() || self.is_context(at, caller.address)
        {
            return Some(EdgeVerdict::Root);
        }
        let lookup = callee.lookup();
        let code = &mut self.loaded[callee.image?].code;
        if let Some((name, _)) = code.image.symbol(lookup)
            && INJECTED.contains(&name.trim_end_matches(".abi0"))
        {
            return Some(EdgeVerdict::Signal);
        }
        if callee.is_exact && code.image.is_leaving(lookup) {
            return Some(EdgeVerdict::Switched);
        }
        let piece = code.image.piece(lookup)?;
        let switch = code.exits(piece).switches_stack?;
        (callee.is_exact && switch <= lookup).then_some(EdgeVerdict::Switched)
    }

    /// Returns true for `__morestack` and its variants, which a function calls to continue on another
    /// stack. Their call frame information leads to the caller of that function.
    fn is_split(&self, frame: Frame) -> bool {
        let symbol = (frame.image).and_then(|at| self.image(at).symbol(frame.lookup()));
        symbol.is_some_and(|(name, _)| name.starts_with("__morestack"))
    }

    /// Returns true for the start of a function that begins with a load of the stack pointer:
    /// `makecontext` writes it as the return address (`__start_context`).
    fn is_context(&mut self, at: usize, address: u64) -> bool {
        let code = &mut self.loaded[at].code;
        let piece = code.image.piece(address);
        let starts = piece.filter(|piece| piece.start == address);
        let switch = starts.and_then(|piece| code.exits(piece).switches_stack);
        switch.is_some_and(|switch| switch - address <= LONGEST_START)
    }
}

/// Returns true for code that begins with a call and cannot continue behind it: `_exit` and `hlt`. Boost's
/// `make_fcontext` writes its address as a return address.
fn ends_process(image: &Image, address: u64) -> bool {
    let Some(piece) = image.piece(address) else {
        return false;
    };
    let code = sweep(
        image,
        Piece {
            start: address,
            ..piece
        },
    );
    let mut flows = code.map(|(_, instruction)| instruction.flow);
    let mut is_call = |flow| matches!(flow, Flow::Call(_));
    let first = (flows.by_ref().take(2)).any(&mut is_call);
    first && flows.next() == Some(Flow::Stop)
}

/// Judges a callee in the image of the destinations.
fn within(image: &Image, reach: &Reach, lookup: u64) -> Option<EdgeVerdict> {
    let mut pieces = reach.pieces.iter();
    match pieces.position(|piece| piece.has(lookup)) {
        Some(0) => Some(EdgeVerdict::Direct),
        Some(_) => Some(EdgeVerdict::Jump),
        // The linkage table's own code, before the dynamic linker has found the function.
        None => {
            let is_table = |address| image.is_linkage_table(address);
            let mut pieces = reach.pieces.iter();
            let leads_to_table = pieces.any(|piece| is_table(piece.start));
            (is_table(lookup) && leads_to_table).then_some(EdgeVerdict::Lazy)
        }
    }
}
