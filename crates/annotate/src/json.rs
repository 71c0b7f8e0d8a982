//! Annotations as JSON. The format is stable: releases only add fields.

use std::borrow::Cow;
use std::io::{self, Write};

use rprof_export::clean::clean;
use serde::Serialize;

use crate::amount::Amount;
use crate::annotation::{Annotation, CodePart, Inlined, Instruction, LineKey, Place};
use crate::disassembly::Flow;
use crate::sources::Sources;

/// Functions of one event, for [`write()`].
#[derive(Clone, Copy, Debug)]
pub struct AnnotationReport<'a> {
    /// Clean name of the event.
    pub event: &'a str,
    /// Unit of the weights: `ns`, the event's generic name, `events`.
    pub unit: &'a str,
    /// Weight of all samples of the event.
    pub whole: u64,
    /// Number of all samples.
    pub samples: u64,
    /// Address precision of the event: see [`skid`](crate::skid).
    pub skid: &'a str,
    /// Annotated functions, in the order of the output.
    pub functions: &'a [Annotation],
    /// Attribution of inlined code.
    pub inlined: Inlined,
}

/// First fields of both JSON formats of this crate.
#[derive(Serialize)]
pub(crate) struct JsonHead<'a> {
    pub(crate) version: u32,
    pub(crate) event: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) weight_total: u64,
    pub(crate) samples: u64,
}

pub(crate) fn write_object(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report).map_err(io::Error::from)?;
    writeln!(out)
}

#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(flatten)]
    head: JsonHead<'a>,
    skid: &'a str,
    functions: Vec<JsonFunction<'a>>,
}

#[derive(Serialize)]
struct JsonFunction<'a> {
    symbol: Cow<'a, str>,
    object: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<String>,
    inlined_everywhere: bool,
    #[serde(flatten)]
    amount: Amount,
    parts: Vec<JsonPart<'a>>,
    lines: Vec<JsonLine<'a>>,
    notes: Vec<Cow<'a, str>>,
}

#[derive(Serialize)]
struct JsonPart<'a> {
    symbol: Cow<'a, str>,
    start: u64,
    size: u64,
    #[serde(flatten)]
    amount: Amount,
    instructions: Vec<JsonInstruction<'a>>,
    loops: Vec<JsonLoop>,
}

#[derive(Serialize)]
struct JsonInstruction<'a> {
    address: u64,
    bytes: String,
    text: &'a str,
    flow: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_symbol: Option<Cow<'a, str>>,
    #[serde(flatten)]
    amount: Amount,
    /// The function, then the inlined calls, outermost first.
    places: Vec<JsonPlace<'a>>,
}

#[derive(Serialize)]
struct JsonPlace<'a> {
    symbol: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    file: Cow<'a, str>,
    line: u32,
    #[serde(flatten)]
    amount: Amount,
    /// Source text, if the file exists and may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize)]
struct JsonLoop {
    start: u64,
    end: u64,
    instructions: usize,
    #[serde(rename = "self")]
    own: u64,
    self_samples: u64,
}

/// Writes functions as one JSON object and a newline.
///
/// # Errors
/// Fails if the writer does.
pub fn write(
    report: &AnnotationReport<'_>,
    sources: &mut Sources<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let functions = report.functions.iter();
    let report = JsonReport {
        head: JsonHead {
            version: 1,
            event: report.event,
            unit: report.unit,
            weight_total: report.whole,
            samples: report.samples,
        },
        skid: report.skid,
        functions: (functions.map(|found| function(found, report.inlined, sources))).collect(),
    };
    write_object(&report, out)
}

fn function<'a>(
    annotation: &'a Annotation,
    inlined: Inlined,
    sources: &mut Sources<'_>,
) -> JsonFunction<'a> {
    let lines = annotation.lines(inlined).into_iter();
    JsonFunction {
        symbol: clean(&annotation.name),
        object: clean(&annotation.object),
        build_id: annotation.build_id.map(|id| id.to_string()),
        inlined_everywhere: annotation.is_inlined,
        amount: annotation.amount,
        parts: annotation
            .parts
            .iter()
            .map(|part| json_part(annotation, part))
            .collect(),
        lines: lines
            .map(|(line, sum)| JsonLine {
                file: clean(annotation.file(line)),
                line: line.line,
                amount: sum,
                text: text(annotation, line, sources),
            })
            .collect(),
        notes: annotation.notes.iter().map(|note| clean(note)).collect(),
    }
}

fn text(annotation: &Annotation, line: LineKey, sources: &mut Sources<'_>) -> Option<String> {
    let path = annotation.file(line);
    let found = sources.find(path, annotation.build_id.as_ref()).ok()?;
    let text = found.lines.get((line.line as usize).checked_sub(1)?)?;
    Some(clean(text).into_owned())
}

fn json_part<'a>(annotation: &'a Annotation, part: &'a CodePart) -> JsonPart<'a> {
    JsonPart {
        symbol: clean(&part.name),
        start: part.start,
        size: part.bytes.len() as u64,
        amount: part.amount,
        instructions: (part.instructions.iter())
            .map(|instruction| json_instruction(annotation, part, instruction))
            .collect(),
        loops: (part.loops.iter())
            .map(|found| JsonLoop {
                start: found.start,
                end: found.end,
                instructions: found.instructions,
                own: found.amount.own,
                self_samples: found.amount.own_samples,
            })
            .collect(),
    }
}

fn json_instruction<'a>(
    annotation: &'a Annotation,
    part: &CodePart,
    instruction: &'a Instruction,
) -> JsonInstruction<'a> {
    let from = instruction.address.wrapping_sub(part.start) as usize;
    let bytes = part
        .bytes
        .get(from..from + instruction.len)
        .unwrap_or_default();
    JsonInstruction {
        address: instruction.address,
        bytes: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        text: &instruction.text,
        flow: match instruction.flow {
            Flow::Next => "next",
            Flow::Jump => "jump",
            Flow::Branch => "branch",
            Flow::Call => "call",
            Flow::Return => "return",
        },
        target: instruction.target,
        target_symbol: (instruction.target_name.as_ref()).map(|(name, _)| clean(name)),
        amount: instruction.amount,
        places: instruction
            .places
            .iter()
            .map(|place| json_place(annotation, place))
            .collect(),
    }
}

fn json_place<'a>(annotation: &'a Annotation, place: &Place) -> JsonPlace<'a> {
    JsonPlace {
        symbol: clean(annotation.function(place)),
        file: place.line.map(|line| clean(annotation.file(line))),
        line: place.line.map(|line| line.line),
    }
}
