//! [`Annotator`]: combines code and samples of a function.

use std::collections::BTreeMap;
use std::ops::Range;

use rprof_analysis::{CodeImages, ObjectCode};
use rprof_profile::views::address_hits::{AddressHit, address_hits};
use rprof_profile::{ObjectKind, Profile, Reason, WeighBy};
use rprof_symbols::{Code, Lookup, SourceLine, Symbolizer};

use crate::amount::Amount;
use crate::annotation::{Annotation, CodePart, Instruction, weigh};
use crate::disassembly::{Flow, Syntax, disassembler};
use crate::flow::loops;
use crate::names::Names;
use crate::subject::AnnotatedCode;

/// Maximum length of a part, in bytes. Longer code is truncated.
const MAX_CODE: u64 = 1 << 20;

/// Maximum number of parts per function. Inlined functions have many.
const MAX_PARTS: usize = 64;

/// Annotates functions of a profile [with addresses](rprof_analysis::Options::addresses).
#[derive(Debug)]
pub struct Annotator<'a> {
    /// Symbolizer with lines: see
    /// [`SymbolizerBuilder::lines`](rprof_symbols::SymbolizerBuilder::lines).
    pub symbolizer: &'a Symbolizer,
    /// Code images of the profile's recordings.
    pub images: &'a [CodeImages<'a>],
    /// Assembly syntax.
    pub syntax: Syntax,
}

/// Reason why a function cannot be annotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotateError {
    /// The profile has no addresses.
    #[error("the input has no addresses")]
    NoAddresses,
    /// The image is missing or differs from the recorded one.
    #[error("its code is unavailable: {0}")]
    NoImage(Reason),
    /// The code is JIT-compiled, and no jitdump has it.
    #[error("its code was generated at run time, and no jitdump contains it")]
    NoJitCode,
    /// No disassembler supports the processor.
    #[error("its processor (ELF machine {0}) is not supported")]
    UnknownProcessor(u16),
    /// The function bounds are unknown for all of its addresses.
    #[error("its function bounds are unknown")]
    NoBounds,
}

struct Piece {
    name: String,
    code: Code,
}

impl Annotator<'_> {
    /// Annotates a function.
    ///
    /// # Errors
    /// Fails with [`AnnotateError`].
    pub fn annotate(
        &self,
        profile: &Profile,
        event: usize,
        weight: WeighBy,
        subject: &AnnotatedCode,
    ) -> Result<Annotation, AnnotateError> {
        if !profile.has_addresses() {
            return Err(AnnotateError::NoAddresses);
        }
        let object = profile.object(subject.object);
        let hits = hits(profile, event, weight, subject);
        let (images, code) = self.code_of_object(profile, subject)?;
        let mut names = Names::default();
        let mut notes = Vec::new();
        let addresses = distinct(&hits);
        let image = Image {
            symbolizer: self.symbolizer,
            images,
            code,
        };
        let pieces = image.pieces(subject, &addresses, &mut notes)?;
        let mut parts = Vec::new();
        for piece in pieces {
            parts.push(self.part(&image, subject, piece, &hits, &mut names, &mut notes)?);
        }
        parts.sort_by_key(|part: &CodePart| part.start);
        let name = match &subject.name {
            Some(name) => name.to_string(),
            None => parts.first().map_or_else(String::new, |part| {
                format!("{}+0x{:x}", object.base_name(), part.start)
            }),
        };
        let (files, functions) = names.into_parts();
        Ok(Annotation {
            name,
            object: object.name.to_string(),
            build_id: object.build_id,
            is_inlined: subject.is_inlined,
            amount: subject.amount,
            parts,
            files,
            functions,
            notes,
            hits,
        })
    }

    fn code_of_object(
        &self,
        profile: &Profile,
        subject: &AnnotatedCode,
    ) -> Result<(&CodeImages<'_>, ObjectCode), AnnotateError> {
        let object = profile.object(subject.object);
        let mut why = Reason::Unmapped;
        for images in self.images {
            match images.of_object(object) {
                Ok(code) => return Ok((images, code)),
                Err(reason) => why = reason,
            }
        }
        match object.kind {
            ObjectKind::Jit => Err(AnnotateError::NoJitCode),
            _ => Err(AnnotateError::NoImage(why)),
        }
    }

    fn part(
        &self,
        image: &Image<'_>,
        subject: &AnnotatedCode,
        piece: Piece,
        hits: &[AddressHit],
        names: &mut Names,
        notes: &mut Vec<String>,
    ) -> Result<CodePart, AnnotateError> {
        let Piece { name, code } = piece;
        let unknown = AnnotateError::UnknownProcessor(code.machine);
        let mut decoder = disassembler(code.machine, self.syntax).ok_or(unknown)?;
        let mut instructions = Vec::new();
        let mut at = 0;
        while let Some(rest) = code.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let address = code.svma.wrapping_add(at as u64);
            let decoded = decoder.decode(rest, address);
            let len = decoded.len.clamp(1, rest.len());
            instructions.push(Instruction {
                address,
                lookup: code.offset.wrapping_add(at as u64),
                len,
                text: decoded.text,
                flow: decoded.flow,
                target: decoded.target,
                ..Instruction::default()
            });
            at += len;
        }
        image.put_places(&code, &mut instructions, subject, names);
        image.name_targets(&code, &mut instructions);
        weigh(&mut instructions, hits);
        let loops = loops(&instructions);
        let wanted = subject.name.as_deref().filter(|_| subject.is_inlined);
        if let Some(wanted) = wanted {
            let is_it = |name: &str| name == wanted;
            instructions.retain_mut(|instruction| {
                let mut places = instruction.places.iter();
                let own = places.position(|place| is_it(names.function(place.function)));
                instruction.own_place = own.unwrap_or(0);
                own.is_some()
            });
        }
        let mut amount = Amount::default();
        let range = code.offset..code.offset.saturating_add(code.bytes.len() as u64);
        for hit in hits {
            if hit.addresses.iter().any(|address| range.contains(address)) {
                let is_leaf = hit.leaf.is_some_and(|leaf| range.contains(&leaf));
                amount += Amount::of(hit.weight, hit.samples, is_leaf);
            }
        }
        if code.is_as_built {
            let note = "instructions come from vmlinux; the running kernel may have changed some";
            if !notes.iter().any(|known| known == note) {
                notes.push(note.to_owned());
            }
        }
        Ok(CodePart {
            name,
            start: code.svma,
            bytes: code.bytes,
            instructions,
            loops,
            amount,
        })
    }
}

fn hits(
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    subject: &AnnotatedCode,
) -> Vec<AddressHit> {
    address_hits(profile, event, weight, |frame| {
        (subject.is_inlined || frame.inline_depth == 0)
            && subject.functions.contains(&frame.function)
    })
}

fn distinct(hits: &[AddressHit]) -> Vec<u64> {
    let mut addresses: Vec<u64> = hits
        .iter()
        .flat_map(|hit| &hit.addresses)
        .copied()
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

struct Image<'a> {
    symbolizer: &'a Symbolizer,
    images: &'a CodeImages<'a>,
    code: ObjectCode,
}

impl Image<'_> {
    fn look_up(&self, offsets: &[u64]) -> Vec<Lookup> {
        match &self.code {
            ObjectCode::Image(key) => self.symbolizer.resolve_image(key, offsets),
            ObjectCode::Copy { bytes, path } => {
                self.symbolizer.resolve_copy(bytes.clone(), path, offsets)
            }
            _ => vec![Err(Reason::JitWithoutMap); offsets.len()],
        }
    }

    fn code(&self, offsets: Range<u64>) -> Result<Code, AnnotateError> {
        let code = match &self.code {
            ObjectCode::Image(key) => self.symbolizer.code(key, offsets),
            ObjectCode::Copy { bytes, path } => {
                self.symbolizer.code_of_copy(bytes.clone(), path, offsets)
            }
            _ => Err(Reason::JitWithoutMap),
        };
        code.map_err(AnnotateError::NoImage)
    }

    fn pieces(
        &self,
        subject: &AnnotatedCode,
        addresses: &[u64],
        notes: &mut Vec<String>,
    ) -> Result<Vec<Piece>, AnnotateError> {
        let pieces = match &self.code {
            ObjectCode::Jit { pid } => self.jit_pieces(*pid, subject, addresses),
            _ => {
                // Keyed by start, so that each function is read once.
                let mut bounds: BTreeMap<u64, (u64, String)> = BTreeMap::new();
                for (address, lookup) in addresses.iter().zip(self.look_up(addresses)) {
                    let Ok(frames) = lookup else { continue };
                    let symbol = frames.symbol();
                    let start = address.wrapping_sub(frames.offset());
                    let size = symbol.size.max(frames.offset().saturating_add(1));
                    bounds.insert(start, (size, symbol.name.to_string()));
                }
                if bounds.len() > MAX_PARTS {
                    let more = bounds.len() - MAX_PARTS;
                    notes.push(format!("{more} more pieces of code were skipped"));
                }
                let mut pieces = Vec::new();
                for (start, (size, name)) in bounds.into_iter().take(MAX_PARTS) {
                    if size > MAX_CODE {
                        notes.push("the code is long: only its first MiB is shown".into());
                    }
                    let end = start.saturating_add(size.min(MAX_CODE));
                    let code = self.code(start..end)?;
                    pieces.push(Piece { name, code });
                }
                pieces
            }
        };
        match (pieces.is_empty(), &self.code) {
            (false, _) => Ok(pieces),
            (true, ObjectCode::Jit { .. }) => Err(AnnotateError::NoJitCode),
            (true, _) => Err(AnnotateError::NoBounds),
        }
    }

    fn jit_pieces(&self, pid: i32, subject: &AnnotatedCode, addresses: &[u64]) -> Vec<Piece> {
        let name = subject.name.as_deref().unwrap_or_default();
        let mut pieces: Vec<Piece> = Vec::new();
        for address in addresses {
            let is_in = |piece: &Piece| {
                let inside = address.checked_sub(piece.code.offset);
                inside.is_some_and(|inside| inside < piece.code.bytes.len() as u64)
            };
            if pieces.iter().any(is_in) || pieces.len() == MAX_PARTS {
                continue;
            }
            if let Some(found) = self.images.jit_code(pid, name, *address) {
                pieces.push(Piece {
                    name: name.to_owned(),
                    code: Code {
                        offset: found.start,
                        svma: found.start,
                        bytes: found.bytes,
                        machine: u16::try_from(found.machine).unwrap_or(0),
                        is_as_built: false,
                    },
                });
            }
        }
        pieces
    }

    /// Sets the source places of each instruction: inlined calls from the symbolizer, the innermost
    /// line from the line table.
    fn put_places(
        &self,
        code: &Code,
        instructions: &mut [Instruction],
        subject: &AnnotatedCode,
        names: &mut Names,
    ) {
        if let ObjectCode::Jit { pid } = &self.code {
            let name = subject.name.as_deref().unwrap_or_default();
            for instruction in instructions {
                let line = self.images.jit_line(*pid, name, instruction.lookup);
                instruction.places = vec![names.place(name, line.as_ref())];
            }
            return;
        }
        let offsets: Vec<u64> = instructions.iter().map(|i| i.lookup).collect();
        let end = code.svma.saturating_add(code.bytes.len() as u64);
        let rows = match &self.code {
            ObjectCode::Image(key) => self.symbolizer.line_ranges(key, code.svma..end),
            _ => Vec::new(),
        };
        for (instruction, lookup) in instructions.iter_mut().zip(self.look_up(&offsets)) {
            let behind = rows.partition_point(|row| row.svmas.start <= instruction.address);
            let row = behind.checked_sub(1).and_then(|at| rows.get(at));
            let row = row.filter(|row| row.svmas.contains(&instruction.address));
            let places: Vec<_> = match &lookup {
                Ok(frames) => {
                    let all = frames.iter();
                    let last = all.len().saturating_sub(1);
                    let line = |at: usize, known: Option<&SourceLine>| match row {
                        Some(row) if at == last => row.line.clone(),
                        _ => known.filter(|line| line.line > 0).cloned(),
                    };
                    (all.enumerate())
                        .map(|(at, frame)| names.place(frame.name, line(at, frame.line).as_ref()))
                        .collect()
                }
                Err(_) => vec![names.place("", None)],
            };
            instruction.places = places;
        }
    }

    /// Looks up the targets of jumps and calls outside of this code.
    fn name_targets(&self, code: &Code, instructions: &mut [Instruction]) {
        let end = code.svma.saturating_add(code.bytes.len() as u64);
        let is_out = |instruction: &Instruction| {
            let target = instruction
                .target
                .filter(|_| instruction.flow != Flow::Next);
            target.filter(|target| !(code.svma..end).contains(target))
        };
        let delta = code.offset.wrapping_sub(code.svma);
        let mut targets: Vec<u64> = instructions.iter().filter_map(is_out).collect();
        targets.sort_unstable();
        targets.dedup();
        let offsets: Vec<u64> = targets
            .iter()
            .map(|svma| svma.wrapping_add(delta))
            .collect();
        let found = self.look_up(&offsets);
        for instruction in instructions {
            let Some(target) = is_out(instruction) else {
                continue;
            };
            let lookup = targets
                .binary_search(&target)
                .ok()
                .and_then(|at| found.get(at));
            if let Some(Ok(frames)) = lookup {
                let name: Box<str> = frames.symbol().name.clone();
                instruction.target_name = Some((name, frames.offset()));
            }
        }
    }
}
