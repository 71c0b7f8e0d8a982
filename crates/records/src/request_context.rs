//! [`RequestContext`]: payload of records with a sample's request.
//!
//! `rprof record --requests` writes samples of an event [`EVENT`] of type `bpf-output`. Their raw
//! data begin with three words:
//!
//! ```text
//!   kind   generation   instruction pointer
//!   1      of the place at that moment                thread context (OTEP 4947): 28 bytes, attributes
//!   2      of the process                  0          process context (OTEP 4719): protobuf
//! ```
//!
//! A thread context belongs to the sample beside it: of the same CPU and thread, with the same
//! instruction pointer, and without another sample in between. It comes before or behind its
//! sample: some kernels stamp a sample before the program runs. A context with the instruction
//! pointer of a switch belongs to the wait that begins there. Numbers have the byte order of the
//! file. A generation ends at exec.

use crate::Endian;

/// Name of the event.
pub const EVENT: &str = "otel-context";

/// `PERF_COUNT_SW_BPF_OUTPUT`, the config of the event.
pub const BPF_OUTPUT: u64 = 10;

/// Size of the words in front, in bytes.
pub const PREFIX_BYTES: usize = 24;

/// Size of a thread context without attributes, in bytes.
pub const HEADER_BYTES: usize = 28;

/// Maximum size of the attributes, in bytes. Larger ones are not recorded.
pub const MAX_ATTRIBUTE_BYTES: usize = 1024;

/// Maximum size of a process context, in bytes.
pub const MAX_PROCESS_BYTES: usize = 16 << 10;

/// Kind of a thread context.
pub const THREAD: u64 = 1;

/// Kind of a process context.
pub const PROCESS: u64 = 2;

/// Payload of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestContext<'d> {
    /// Context of a thread.
    Thread {
        /// Generation of the process.
        generation: u64,
        /// Instruction pointer of the sample.
        ip: u64,
        /// Trace id in the order of W3C Trace Context; zeros without a trace.
        trace: [u8; 16],
        /// Span id, likewise.
        span: [u8; 8],
        /// Attributes: see [`attributes`].
        attributes: &'d [u8],
    },
    /// Context of a process.
    Process {
        /// Generation of the process.
        generation: u64,
        /// `opentelemetry.proto.resource.v1.Resource`
        resource: &'d [u8],
    },
}

impl<'d> RequestContext<'d> {
    /// Decodes a payload; `None` for other payloads. Ignores the kernel's padding.
    pub fn parse(payload: &'d [u8], endian: Endian) -> Option<RequestContext<'d>> {
        let word = |at: usize| {
            let bytes = payload.get(at..at + 8)?;
            Some(endian.u64(bytes.try_into().ok()?))
        };
        let (kind, generation, ip) = (word(0)?, word(8)?, word(16)?);
        let rest = payload.get(PREFIX_BYTES..)?;
        match kind {
            THREAD => {
                let (header, rest) = rest.split_first_chunk::<HEADER_BYTES>()?;
                let size = endian.u16([header[26], header[27]]);
                Some(RequestContext::Thread {
                    generation,
                    ip,
                    trace: *header.first_chunk()?,
                    span: *header.get(16..)?.first_chunk()?,
                    // Unread attributes are missing as a whole.
                    attributes: rest.get(..usize::from(size)).unwrap_or_default(),
                })
            }
            // The size is in the third word.
            PROCESS => Some(RequestContext::Process {
                generation,
                resource: rest.get(..usize::try_from(ip).ok()?)?,
            }),
            _ => None,
        }
    }

    /// Returns the payload of a process context.
    pub fn encode_process(generation: u64, resource: &[u8]) -> Vec<u8> {
        let words = [PROCESS, generation, resource.len() as u64];
        let mut payload: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        payload.extend_from_slice(resource);
        payload
    }
}

/// Iterates over attributes: index of the key, and value. Ends at an incomplete attribute. Of equal
/// keys, the last one counts.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let ([key, len], rest) = bytes.split_first_chunk()?;
        let value = rest.get(..usize::from(*len))?;
        bytes = &rest[usize::from(*len)..];
        Some((*key, value))
    })
}

/// Attribute of a process context with the names of the keys.
const KEY_MAP: &[u8] = b"threadlocal.attribute_key_map";

/// Returns the names of the keys of thread contexts, by index, from a process context. Invalid UTF-8
/// is replaced.
pub fn attribute_keys(resource: &[u8]) -> Vec<String> {
    // `KeyValue { key = 1, value = 2 }`, `AnyValue { string_value = 1, array_value = 5 }`,
    // `ArrayValue { values = 1 }`
    let of_attribute = |attribute| {
        let is_map = fields(attribute, 1).any(|key| key == KEY_MAP);
        let values = fields(attribute, 2).flat_map(|value| fields(value, 5));
        let names = values.flat_map(|array| fields(array, 1)).map(|value| {
            let name = fields(value, 1).last().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        });
        is_map.then(|| names.collect())
    };
    // `Resource { attributes = 1 }`, or in later revisions of OTEP 4719
    // `ProcessContext { resource = 1, attributes = 2 }`.
    let direct = fields(resource, 1).chain(fields(resource, 2));
    let nested = fields(resource, 1).flat_map(|resource| fields(resource, 1));
    direct
        .chain(nested)
        .find_map(of_attribute)
        .unwrap_or_default()
}

/// Iterates over the length-delimited fields with this number in a protobuf message. Ends at
/// damage.
fn fields(mut message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let key = varint(&mut message)?;
            let skipped = match key & 7 {
                0 => {
                    varint(&mut message)?;
                    continue;
                }
                1 => 8,
                2 => usize::try_from(varint(&mut message)?).ok()?,
                5 => 4,
                _ => return None,
            };
            let (field, rest) = message.split_at_checked(skipped)?;
            message = rest;
            if key == number << 3 | 2 {
                return Some(field);
            }
        }
    })
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(attributes: &[u8], size: u16) -> Vec<u8> {
        let words = [THREAD, 3, 0x1234];
        let mut payload: Vec<u8> = words
            .iter()
            .flat_map(|word: &u64| word.to_ne_bytes())
            .collect();
        payload.extend([0xaa; 16]);
        payload.extend([0xbb; 8]);
        payload.extend([1, 0]);
        payload.extend(size.to_ne_bytes());
        payload.extend(attributes);
        payload
    }

    #[test]
    fn a_thread_context_has_ids_and_attributes() {
        let payload = thread(&[0, 2, b'o', b'k', 9, 9], 6);
        let Some(RequestContext::Thread {
            generation,
            ip,
            trace,
            span,
            attributes: bytes,
        }) = RequestContext::parse(&payload, Endian::NATIVE)
        else {
            panic!("no thread context");
        };
        assert_eq!((generation, ip), (3, 0x1234));
        assert_eq!((trace, span), ([0xaa; 16], [0xbb; 8]));
        let all: Vec<_> = attributes(bytes).collect();
        assert_eq!(all, [(0, &b"ok"[..])], "the second one is incomplete");
    }

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    #[test]
    fn keys_are_found_in_both_revisions() {
        let text = |text: &str| field(1, &field(1, text.as_bytes()));
        let names = [text("http.route"), text("user")].concat();
        let value = field(2, &field(5, &names));
        let map = [field(1, KEY_MAP), value].concat();
        let other = [field(1, b"service.name"), field(2, &field(1, b"x"))].concat();
        let attributes = [field(1, &other), field(1, &map)].concat();
        let nested = [field(1, &field(1, &other)), field(2, &map)].concat();
        for resource in [&attributes, &field(1, &attributes), &nested] {
            assert_eq!(attribute_keys(resource), ["http.route", "user"]);
            for len in 0..resource.len() {
                attribute_keys(&resource[..len]);
            }
        }
    }

    #[test]
    fn damaged_payloads_are_no_context() {
        let whole = thread(&[0, 1, b'a'], 3);
        for len in 0..PREFIX_BYTES + HEADER_BYTES {
            assert_eq!(RequestContext::parse(&whole[..len], Endian::NATIVE), None);
        }
        let cut = thread(&[0], 9);
        let Some(RequestContext::Thread { attributes, .. }) =
            RequestContext::parse(&cut, Endian::NATIVE)
        else {
            panic!("no thread context");
        };
        assert_eq!(attributes, b"", "attributes that were not read");
        let mut process = RequestContext::encode_process(1, b"abc");
        process.truncate(PREFIX_BYTES + 2);
        assert_eq!(RequestContext::parse(&process, Endian::NATIVE), None);
    }
}
