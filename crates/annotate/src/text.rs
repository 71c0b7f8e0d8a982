//! Annotations as text: coloured and fitted to a terminal, or plain for a pipe.

use std::io::{self, Write};
use std::sync::Arc;

use rprof_export::clean::{clean, shorten};
use rprof_export::table::painted;
use rprof_profile::unit::inflected;

use crate::amount::Amount;
use crate::annotation::{Annotation, CodePart, Inlined, Instruction, LineKey};
use crate::flow::arrows;
use crate::sources::{SourceText, Sources};
use crate::text_arrows::Lanes;
use crate::text_rows::{cut, legible, shown, shown_width};

/// Content of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Source lines.
    Source,
    /// Instructions.
    Asm,
    /// Source lines with their instructions below.
    #[default]
    Both,
}

/// Base of percentages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// All samples of the event, as in a report.
    #[default]
    Global,
    /// Self or total of the function. perf annotate shows the former.
    Local,
}

/// Content and layout of a listing on a terminal or in a file.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// Content of the listing.
    pub by: By,
    /// Attribution of inlined code.
    pub inlined: Inlined,
    /// Base of the percentages.
    pub base: Base,
    /// Clean name of the event.
    pub event: String,
    /// Weight of all samples of the event.
    pub whole: u64,
    /// Show all lines and instructions, not only those with samples and their neighbours.
    pub all: bool,
    /// Show the bytes of instructions.
    pub bytes: bool,
    /// Colour the shares.
    pub color: bool,
    /// Width of the terminal in characters; `None` never truncates.
    pub width: Option<usize>,
}

/// Writes a function.
///
/// # Errors
/// Fails if the writer does.
pub fn write(
    annotation: &Annotation,
    sources: &mut Sources<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page {
        annotation,
        options,
        bases: bases(annotation, options),
        texts: Vec::new(),
        out,
    };
    page.heading()?;
    if options.by != By::Asm {
        page.read_sources(sources)?;
    }
    if options.by == By::Source {
        page.listing()?;
    } else {
        for part in &annotation.parts {
            page.part(part)?;
        }
    }
    page.hottest_lines()
}

fn bases(annotation: &Annotation, options: &TextOptions) -> (u64, u64) {
    match options.base {
        Base::Global => (options.whole, options.whole),
        Base::Local => (annotation.amount.own, annotation.amount.total),
    }
}

struct Page<'a> {
    annotation: &'a Annotation,
    options: &'a TextOptions,
    bases: (u64, u64),
    texts: Vec<Option<Arc<SourceText>>>,
    out: &'a mut dyn Write,
}

impl Page<'_> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        let text = text.trim_end();
        match self.options.width {
            Some(width) if shown_width(text) > width => {
                writeln!(self.out, "{}", cut(text, width))
            }
            _ => writeln!(self.out, "{text}"),
        }
    }

    fn heading(&mut self) -> io::Result<()> {
        let a = self.annotation;
        let share = |part| rprof_export::rows::percent(part, self.options.whole);
        let name = clean(&a.name).into_owned();
        let object = a.object.rsplit('/').next().unwrap_or(&a.object);
        let inlined = if a.is_inlined {
            ", inlined at every call"
        } else {
            ""
        };
        let text = format!(
            "# {name} in {}{inlined}: self {:.2}%, total {:.2}% of {}; {} {} in it",
            clean(object),
            share(a.amount.own),
            share(a.amount.total),
            self.options.event,
            a.amount.own_samples,
            inflected(a.amount.own_samples, "sample")
        );
        self.line(&text)?;
        for note in &a.notes {
            self.line(&format!("# {}", clean(note)))?;
        }
        Ok(())
    }

    fn read_sources(&mut self, sources: &mut Sources<'_>) -> io::Result<()> {
        let lines = self.annotation.lines(self.options.inlined);
        for (file, path) in (0..).zip(&self.annotation.files) {
            let own = lines.iter().filter(|(line, _)| line.file == file);
            let Some(weight) = own
                .map(|(_, amount)| amount.total)
                .reduce(u64::saturating_add)
            else {
                self.texts.push(None);
                continue;
            };
            let found = sources.find(path, self.annotation.build_id.as_ref());
            if let (Err(why), 1..) = (&found, weight) {
                let path = clean(path).into_owned();
                self.line(&format!("# {path} is not shown: {why}"))?;
            }
            self.texts.push(found.ok());
        }
        Ok(())
    }

    fn shares(&self, amount: &Amount) -> String {
        let share = |part, whole| rprof_export::rows::percent(part, whole);
        let (own, total) = (
            share(amount.own, self.bases.0),
            share(amount.total, self.bases.1),
        );
        match amount.total {
            0 => format!("{:8} {:8}", "", ""),
            _ => format!(
                "{} {}",
                painted(own, self.options.color && amount.own > 0),
                painted(total, self.options.color)
            ),
        }
    }

    fn source(&self, line: LineKey) -> Option<&str> {
        let text = self.texts.get(line.file as usize)?.as_ref()?;
        let index = (line.line as usize).checked_sub(1)?;
        text.lines.get(index).map(String::as_str)
    }

    fn listing(&mut self) -> io::Result<()> {
        let lines = self.annotation.lines(self.options.inlined);
        if lines.is_empty() {
            return self
                .line("# no source lines: the debug information has none (compile with -g)");
        }
        for of_file in lines.chunk_by(|a, b| a.0.file == b.0.file) {
            let Some((first, _)) = of_file.first() else {
                continue;
            };
            if of_file.iter().all(|(_, amount)| amount.total == 0) && !self.options.all {
                continue;
            }
            let path = clean(self.annotation.file(*first)).into_owned();
            self.line("#")?;
            self.line(&format!("#   self    total     line  {path}"))?;
            let rows = self.rows_of_file(of_file);
            let is_hot: Vec<bool> = rows.iter().map(|(_, amount)| amount.total > 0).collect();
            let mut gap = 0;
            for ((line, amount), shown) in rows.iter().zip(shown(&is_hot, self.options.all)) {
                if !shown {
                    gap += 1;
                    continue;
                }
                self.gap(&mut gap, "")?;
                let shares = self.shares(amount);
                let text = legible(self.source(*line).unwrap_or(""));
                self.line(&format!("{shares} {:>7}  {text}", line.line))?;
            }
            self.gap(&mut gap, "")?;
        }
        Ok(())
    }

    /// Returns the file's lines from the first to the last of the function. Without the file's
    /// text, returns only the known ones.
    fn rows_of_file(&self, lines: &[(LineKey, Amount)]) -> Vec<(LineKey, Amount)> {
        let (Some((first, _)), Some((last, _))) = (lines.first(), lines.last()) else {
            return Vec::new();
        };
        let is_here = self
            .texts
            .get(first.file as usize)
            .is_some_and(Option::is_some);
        // Inlined functions may be far apart in one file.
        if !is_here || last.line - first.line > MAX_LINES {
            return lines.to_vec();
        }
        let from = first.line.saturating_sub(2).max(1);
        let amount = |line: u32| {
            let at = lines.binary_search_by_key(&line, |(key, _)| key.line).ok();
            at.and_then(|at| lines.get(at))
                .map_or_else(Amount::default, |(_, amount)| *amount)
        };
        let key = |line| LineKey {
            file: first.file,
            line,
        };
        (from..=last.line.saturating_add(1))
            .filter(|line| self.source(key(*line)).is_some() || *line <= last.line)
            .map(|line| (key(line), amount(line)))
            .collect()
    }

    fn part(&mut self, part: &CodePart) -> io::Result<()> {
        let lanes = Lanes::new(&arrows(&part.instructions), part.instructions.len());
        let share = rprof_export::rows::percent(part.amount.own, self.options.whole);
        let name = clean(&part.name).into_owned();
        self.line("#")?;
        if self.annotation.parts.len() > 1 || *part.name != *self.annotation.name {
            self.line(&format!(
                "# in {name} at {:x}: self {share:.2}%",
                part.start
            ))?;
        }
        let heads = if self.options.bytes { "  bytes" } else { "" };
        self.line(&format!("#   self    total  address{heads}"))?;
        let is_hot: Vec<bool> = part
            .instructions
            .iter()
            .map(|i| i.amount.total > 0)
            .collect();
        let shown = shown(&is_hot, self.options.all);
        let (mut gap, mut before, mut last) = (0, None, None::<&Instruction>);
        for (index, (instruction, shown)) in part.instructions.iter().zip(shown).enumerate() {
            if !shown {
                gap += 1;
                continue;
            }
            let margin = format!("{:28}{}", "", lanes.before(index));
            let has_gap = gap > 0;
            self.gap(&mut gap, &margin)?;
            // Between the pieces of an inlined function is other code.
            let is_next =
                last.is_none_or(|last| last.address + last.len as u64 == instruction.address);
            if !is_next && !has_gap && self.annotation.is_inlined {
                self.line(&format!("{margin}⋯"))?;
            }
            last = Some(instruction);
            let line = instruction.line(self.options.inlined);
            if self.options.by == By::Both && line.is_some() && line != before {
                self.source_line(line, &lanes, index)?;
            }
            before = line.or(before);
            self.instruction(part, instruction, &lanes, index)?;
        }
        self.gap(&mut gap, "")?;
        if let Some(hot) = part.loops.first() {
            let share = rprof_export::rows::percent(hot.amount.own, self.options.whole);
            let of_function =
                rprof_export::rows::percent(hot.amount.own, self.annotation.amount.own);
            self.line(&format!(
                "# hottest loop: {:x} to {:x}, {} instructions, {share:.2}% of all, {of_function:.1}% of the function",
                hot.start, hot.end, hot.instructions
            ))?;
        }
        Ok(())
    }

    fn source_line(
        &mut self,
        line: Option<LineKey>,
        lanes: &Lanes,
        index: usize,
    ) -> io::Result<()> {
        let Some(line) = line else { return Ok(()) };
        let file = clean(self.annotation.file(line)).into_owned();
        let file = file.rsplit('/').next().unwrap_or(&file).to_owned();
        let text = legible(self.source(line).unwrap_or(""));
        let before = lanes.before(index);
        self.line(&format!(
            "{:28}{before}  {file}:{}  {}",
            "",
            line.line,
            text.trim_start()
        ))
    }

    fn instruction(
        &mut self,
        part: &CodePart,
        instruction: &Instruction,
        lanes: &Lanes,
        index: usize,
    ) -> io::Result<()> {
        let shares = self.shares(&instruction.amount);
        let mut text = format!("{shares} {:>9x} ", instruction.address);
        if self.options.bytes {
            let from = instruction.address.wrapping_sub(part.start) as usize;
            let bytes = part
                .bytes
                .get(from..from + instruction.len)
                .unwrap_or_default();
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&format!("{:<24}", digits.join(" ")));
        }
        text.push_str(&lanes.at(index));
        text.push_str("  ");
        text.push_str(&instruction.text);
        if let Some((name, offset)) = &instruction.target_name {
            let name = shorten(&clean(name), NAME).into_owned();
            text.push_str(&match offset {
                0 => format!(" <{name}>"),
                offset => format!(" <{name}+0x{offset:x}>"),
            });
        }
        if let Some(inlined) = self.inlined_text(instruction) {
            let width = shown_width(&text);
            text.push_str(&" ".repeat(INLINED_AT.saturating_sub(width).max(2)));
            text.push_str(&inlined);
        }
        self.line(&text)
    }

    fn inlined_text(&self, instruction: &Instruction) -> Option<String> {
        let place = instruction.inlined().last()?;
        let name = shorten(&clean(self.annotation.function(place)), NAME).into_owned();
        let at = match place.line {
            Some(line) => {
                let file = self.annotation.file(line);
                let file = file.rsplit('/').next().unwrap_or(file);
                format!(" ({}:{})", clean(file), line.line)
            }
            None => String::new(),
        };
        Some(format!("⟵ {name}{at}"))
    }

    fn gap(&mut self, gap: &mut usize, margin: &str) -> io::Result<()> {
        let rows = std::mem::take(gap);
        match rows {
            0 => Ok(()),
            _ => self.line(&format!("{margin:<28}⋯ {rows} without samples")),
        }
    }

    fn hottest_lines(&mut self) -> io::Result<()> {
        let mut lines = self.annotation.lines(self.options.inlined);
        lines.sort_by_key(|(_, amount)| u64::MAX - amount.own);
        lines.truncate(HOTTEST_LINES);
        lines.retain(|(_, amount)| amount.own > 0);
        if lines.is_empty() {
            return Ok(());
        }
        let share = |weight| rprof_export::rows::percent(weight, self.options.whole);
        let words: Vec<String> = (lines.iter())
            .map(|(line, amount)| {
                let file = self.annotation.file(*line);
                let file = clean(file.rsplit('/').next().unwrap_or(file)).into_owned();
                format!("{file}:{} {:.2}%", line.line, share(amount.own))
            })
            .collect();
        self.line(&format!("# hottest lines: {}", words.join(", ")))
    }
}

/// Maximum number of lines in a range without gaps.
const MAX_LINES: u32 = 5_000;

const NAME: usize = 60;

/// Column of inlined calls.
const INLINED_AT: usize = 76;

const HOTTEST_LINES: usize = 5;
