//! The description of one tracepoint.

use std::cell::Cell;

use rprof_records::Endian;

use super::program::{BUDGET, Payload};
use super::template::Template;
use super::{fallback, types};

/// Fields that one event may have; the kernel's have some dozens.
const MAX_FIELDS: usize = 512;

/// Bytes of text that one payload may become.
pub(super) const MAX_TEXT: usize = 1 << 16;

/// How a field lies in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// One value.
    Scalar,
    /// Values one behind the other.
    Array {
        /// Bytes of each.
        element: u32,
    },
    /// A word that tells offset (low 16 bits) and length (high 16 bits) of an array.
    Dynamic {
        /// Bytes of each element.
        element: u32,
        /// Whether the offset counts from the end of the field (`__rel_loc`), not
        /// from the start of the payload (`__data_loc`).
        relative: bool,
    },
}

/// A field of a tracepoint's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type, as C text without name and bounds.
    pub type_name: String,
    /// Bytes from the start of the payload.
    pub offset: u32,
    /// Bytes; 0 for an array that takes the rest of the payload.
    pub size: u32,
    /// Whether its integers have a sign.
    pub signed: bool,
    /// How it lies there.
    pub kind: FieldKind,
    /// Whether all tracepoints have it: a `common_` field.
    pub common: bool,
}

/// Names for addresses in payloads.
pub trait Names {
    /// The kernel function at an address, and the distance from its start.
    fn kernel_function(&self, address: u64) -> Option<(&str, u64)>;

    /// The kernel's string at an address.
    fn kernel_string(&self, address: u64) -> Option<&str>;
}

/// Knows no names.
impl Names for () {
    fn kernel_function(&self, _: u64) -> Option<(&str, u64)> {
        None
    }

    fn kernel_string(&self, _: u64) -> Option<&str> {
        None
    }
}

/// A tracepoint: what its payload holds, and how it is printed.
#[derive(Clone, Debug)]
pub struct EventFormat {
    /// Subsystem, such as `sched`.
    pub system: String,
    /// Name, such as `sched_switch`.
    pub name: String,
    /// Fields, in the order of the description.
    pub fields: Vec<Field>,
    endian: Endian,
    /// `None` where the print format is beyond us.
    template: Option<Template>,
}

impl EventFormat {
    /// Reads the text of a `format` file. `long_size` is that of the recorder.
    /// `None` where it has neither name nor fields.
    pub fn parse(system: &str, text: &str, endian: Endian, long_size: u8) -> Option<EventFormat> {
        let (description, print) = match text.split_once("print fmt:") {
            Some((description, print)) => (description, Some(print)),
            None => (text, None),
        };
        let mut name = None;
        let mut fields = Vec::new();
        for line in description.lines().map(str::trim) {
            if let Some(text) = line.strip_prefix("name:") {
                name = Some(text.trim().to_owned());
            } else if let Some(text) = line.strip_prefix("field:") {
                fields.extend((fields.len() < MAX_FIELDS).then(|| field(text, long_size))?);
            }
        }
        let template = print.and_then(|text| Template::compile(text, &fields, long_size));
        Some(EventFormat {
            system: system.to_owned(),
            name: name?,
            fields,
            endian,
            template,
        })
    }

    /// The event id in the text of a `format` file.
    pub fn id_of(text: &str) -> Option<u64> {
        // Before any field.
        let mut lines = text.lines().take(16);
        lines.find_map(|l| l.trim().strip_prefix("ID:")?.trim().parse().ok())
    }

    /// Whether the print format could be compiled; otherwise payloads are printed
    /// as `[FAILED TO PARSE] field=value …`.
    pub fn is_printable(&self) -> bool {
        self.template.is_some()
    }

    /// Whether payloads hold addresses of kernel functions that are printed by name.
    pub fn has_functions(&self) -> bool {
        self.template.as_ref().is_some_and(Template::has_functions)
    }

    fn payload<'p>(&'p self, bytes: &'p [u8]) -> Payload<'p> {
        Payload {
            bytes,
            fields: &self.fields,
            endian: self.endian,
            budget: Cell::new(BUDGET),
        }
    }

    /// Addresses of kernel functions that [`print`](Self::print) will ask names for.
    pub fn functions(&self, payload: &[u8], found: &mut dyn FnMut(u64)) {
        if let Some(template) = &self.template {
            template.functions(&self.payload(payload), found);
        }
    }

    /// Appends a payload as text. The text may hold any character that stands in
    /// the recording: clean it before showing it.
    pub fn print(&self, payload: &[u8], names: &dyn Names, out: &mut String) {
        let payload = self.payload(payload);
        match &self.template {
            Some(template) => template.print(&payload, names, out),
            None => {
                out.push_str("[FAILED TO PARSE]");
                fallback::print(&payload, out);
            }
        }
    }

    /// Appends all fields of a payload, as ` field=value …`.
    pub fn print_fields(&self, payload: &[u8], out: &mut String) {
        fallback::print(&self.payload(payload), out);
    }
}

/// Reads `TYPE NAME[BOUND]; offset:N; size:N; signed:N;`.
fn field(text: &str, long_size: u8) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, None);
    for part in parts {
        let Some((key, value)) = part.split_once(':') else {
            continue;
        };
        let value = value.trim().parse::<u32>().ok();
        match key {
            "offset" => offset = value,
            "size" => size = value,
            "signed" => signed = value,
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    // The bound stands behind the name (`char comm[16]`), or, of dynamic arrays,
    // behind the type (`__data_loc char[] name`).
    let (without_bound, bound) = match (declaration.find('['), declaration.rfind(']')) {
        (Some(open), Some(close)) if open < close => {
            let rest = [&declaration[..open], " ", &declaration[close + 1..]].concat();
            (rest, Some(declaration[open + 1..close].trim()))
        }
        _ => (declaration.to_owned(), None),
    };
    let without_bound = without_bound.trim();
    let name_at = (without_bound.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .map_or(0, |at| at + 1);
    let (type_text, name) = without_bound.split_at_checked(name_at)?;
    (!name.is_empty()).then_some(())?;
    let words: Vec<&str> = (type_text.split([' ', '\t', '*']))
        .filter(|w| !w.is_empty() && !w.starts_with("__data_loc") && !w.starts_with("__rel_loc"))
        .collect();
    let stars = type_text.matches('*').count();
    let element = types::parse(&words, stars, long_size).and_then(|t| types::size(t, long_size));
    let by_type = element.map_or(1, u32::from);
    let relative = type_text.contains("__rel_loc");
    let kind = if relative || type_text.contains("__data_loc") {
        FieldKind::Dynamic {
            element: by_type,
            relative,
        }
    } else {
        match bound {
            None => FieldKind::Scalar,
            Some(bound) => FieldKind::Array {
                element: match bound.parse::<u32>() {
                    Ok(count) if count > 0 && size >= count => size / count,
                    _ => by_type,
                },
            },
        }
    };
    // Kernels before 2.6.32 did not tell the sign.
    let signed = signed.map_or_else(
        || !type_text.contains("unsigned") && !type_text.trim_start().starts_with('u'),
        |s| s != 0,
    );
    Some(Field {
        common: name.starts_with("common_"),
        name: name.to_owned(),
        type_name: type_text.trim().to_owned(),
        offset,
        size,
        signed,
        kind,
    })
}
