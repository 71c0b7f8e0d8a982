//! Description of one tracepoint.

use rprof_records::Endian;

use crate::fallback;
use crate::field::Field;
use crate::names::KernelNames;
use crate::payload::Payload;
use crate::template::Template;

/// Maximum number of fields. The kernel's events have some dozens.
const MAX_FIELDS: usize = 512;

/// Compiled description of one tracepoint: the fields of its payload, and its print format.
#[derive(Clone, Debug)]
pub struct EventFormat {
    /// Subsystem, such as `sched`.
    pub system: String,
    /// Name, such as `sched_switch`.
    pub name: String,
    /// Fields, in the order of the description.
    pub fields: Vec<Field>,
    endian: Endian,
    /// `None` if the print format is unsupported.
    template: Option<Template>,
}

impl EventFormat {
    /// Compiles the text of a `format` file. `endian` and `long_size`, the bytes of a `long`,
    /// belong to the recording machine. Returns `None` if the text has no name, or more than 512
    /// fields. Skips malformed fields.
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
                fields.extend((fields.len() < MAX_FIELDS).then(|| Field::parse(text, long_size))?);
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

    /// Returns the event id in the text of a `format` file: `config` of the event's attr.
    pub fn id_of(text: &str) -> Option<u64> {
        // The id precedes the fields.
        let mut lines = text.lines().take(16);
        lines.find_map(|l| l.trim().strip_prefix("ID:")?.trim().parse().ok())
    }

    /// Returns true if the print format was compiled. Otherwise, payloads are printed as `[FAILED
    /// TO PARSE] field=value …`.
    pub fn is_printable(&self) -> bool {
        self.template.is_some()
    }

    /// Returns true if payloads contain addresses of kernel functions that are printed by name.
    pub fn has_functions(&self) -> bool {
        self.template.as_ref().is_some_and(Template::has_functions)
    }

    fn payload<'p>(&'p self, bytes: &'p [u8]) -> Payload<'p> {
        Payload::new(bytes, &self.fields, self.endian)
    }

    /// Calls `found` with each kernel function address that [`print`](Self::print) will look up, so
    /// that they can be symbolized together.
    pub fn functions(&self, payload: &[u8], found: &mut dyn FnMut(u64)) {
        if let Some(template) = &self.template {
            template.functions(&self.payload(payload), found);
        }
    }

    /// Appends a payload as text, at most 64 KiB. The text may contain any character of the
    /// payload: clean it before display.
    pub fn print(&self, payload: &[u8], names: &dyn KernelNames, out: &mut String) {
        let payload = self.payload(payload);
        match &self.template {
            Some(template) => template.print(&payload, names, out),
            None => {
                out.push_str("[FAILED TO PARSE]");
                fallback::print(&payload, out);
            }
        }
    }
}
