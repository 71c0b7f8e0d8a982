//! The kernel's extensions of `%p` (`Documentation/core-api/printk-formats.rst`).

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use rprof_records::{Endian, RawBytes};

use crate::names::KernelNames;
use crate::payload::Payload;
use crate::printf::Shape;
use crate::value::Value;

/// An extension of `%p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// An address.
    Plain,
    /// `S`, `B` (with offset), `s`: a function of the kernel.
    Function { offset: bool },
    /// `I4`, `i4`: the second pads with zeros.
    V4 { zeros: bool },
    /// `I6`, `i6`, `I6c`.
    V6 { colons: bool, compressed: bool },
    /// `IS`, with `p` for the port and `c` for compressed.
    Socket { port: bool, compressed: bool },
    /// `M`, `MF`, `m`: the separator between bytes.
    Mac { separator: Option<char> },
    /// `U`, `b`, `l`, `B`, `L`: byte order and case.
    Uuid { little: bool, upper: bool },
    /// Extension that requires kernel memory.
    Other,
}

/// Parses the letters after `%p`. Returns the extension and its length in bytes.
pub(crate) fn parse(letters: &str) -> (Pointer, usize) {
    let has = |c| letters.contains(c);
    let all = letters.len();
    let pointer = match letters.as_bytes() {
        [] | [b'K' | b'x', ..] => Pointer::Plain,
        [b'S' | b'F' | b'B', ..] => Pointer::Function { offset: true },
        [b's' | b'f', ..] => Pointer::Function { offset: false },
        [b'I', b'4', ..] => Pointer::V4 { zeros: false },
        [b'i', b'4', ..] => Pointer::V4 { zeros: true },
        [b'I', b'6', ..] => Pointer::V6 {
            colons: true,
            compressed: has('c'),
        },
        [b'i', b'6', ..] => Pointer::V6 {
            colons: false,
            compressed: false,
        },
        [b'I' | b'i', b'S', ..] => Pointer::Socket {
            port: has('p'),
            compressed: has('c'),
        },
        [b'M', rest @ ..] => Pointer::Mac {
            separator: Some(if rest.starts_with(b"F") { '-' } else { ':' }),
        },
        [b'm', ..] => Pointer::Mac { separator: None },
        [b'U', rest @ ..] => Pointer::Uuid {
            little: matches!(rest.first(), Some(b'l' | b'L')),
            upper: matches!(rest.first(), Some(b'B' | b'L')),
        },
        _ => Pointer::Other,
    };
    (pointer, all)
}

/// Formats a pointer as text; `None` if it is unknown.
pub(crate) fn print(
    pointer: Pointer,
    shape: Shape,
    value: &Value<'_>,
    payload: &Payload<'_>,
    names: &dyn KernelNames,
) -> Option<String> {
    let text = match pointer {
        Pointer::Plain => match value.number()?.bits {
            0 => "(nil)".into(),
            bits => format!("{bits:#x}"),
        },
        Pointer::Other => format!("{:#x}", value.number()?.bits),
        Pointer::Function { offset } => function(value.number()?.bits, offset, names),
        Pointer::V4 { zeros } => v4(bytes(value)?.first_chunk()?, zeros),
        Pointer::V6 { colons, compressed } => v6(bytes(value)?.first_chunk()?, colons, compressed),
        Pointer::Socket { port, compressed } => {
            socket(bytes(value)?, port, compressed, payload.endian)?
        }
        Pointer::Mac { separator } => {
            let mut text = String::new();
            for byte in bytes(value)?.first_chunk::<6>()? {
                text.extend(separator.filter(|_| !text.is_empty()));
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
        Pointer::Uuid { little, upper } => uuid(bytes(value)?.first_chunk()?, little, upper),
    };
    Some(shape.text(&text))
}

fn bytes<'p>(value: &Value<'p>) -> Option<&'p [u8]> {
    value.bytes().map(|b| b.bytes)
}

fn function(address: u64, with_offset: bool, names: &dyn KernelNames) -> String {
    match names.kernel_function(address) {
        Some((name, offset)) if with_offset => format!("{name}+{offset:#x}"),
        Some((name, _)) => name.to_owned(),
        None => format!("{address:#x}"),
    }
}

fn v4(b: &[u8; 4], zeros: bool) -> String {
    match zeros {
        true => format!("{:03}.{:03}.{:03}.{:03}", b[0], b[1], b[2], b[3]),
        false => Ipv4Addr::from(*b).to_string(),
    }
}

fn v6(b: &[u8; 16], colons: bool, compressed: bool) -> String {
    let address = Ipv6Addr::from(*b);
    if compressed {
        return address.to_string();
    }
    let words = address.segments().map(|s| format!("{s:04x}"));
    words.join(if colons { ":" } else { "" })
}

/// Formats a `struct sockaddr`: family in the recorder's byte order, port in the network's.
fn socket(bytes: &[u8], port: bool, compressed: bool, endian: Endian) -> Option<String> {
    let raw = RawBytes::from(bytes);
    let number = raw.u16(2, Endian::Big);
    Some(match raw.u16(0, endian)? {
        2 => {
            let address = v4(bytes.get(4..)?.first_chunk()?, false);
            match port {
                true => format!("{address}:{}", number?),
                false => address,
            }
        }
        10 => {
            let address = v6(bytes.get(8..)?.first_chunk()?, true, compressed);
            match port {
                true => format!("[{address}]:{}", number?),
                false => address,
            }
        }
        _ => return None,
    })
}

fn uuid(b: &[u8; 16], little: bool, upper: bool) -> String {
    // The first three groups are integers, which little-endian writers swap.
    const ORDER: [[usize; 16]; 2] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15],
    ];
    let mut text = String::new();
    for (i, at) in ORDER[usize::from(little)].iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{:02x}", b[*at]);
    }
    match upper {
        true => text.to_uppercase(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[255, 255, 127, 0, 0, 1]);
        assert_eq!(v6(&mapped, true, true), "::ffff:127.0.0.1");
        assert_eq!(
            v6(&mapped, true, false),
            "0000:0000:0000:0000:0000:ffff:7f00:0001"
        );
        assert_eq!(v4(&[10, 0, 0, 1], true), "010.000.000.001");
        let socket4 = [2, 0, 0, 80, 127, 0, 0, 1];
        assert_eq!(
            socket(&socket4, true, true, Endian::Little).unwrap(),
            "127.0.0.1:80"
        );
        assert_eq!(socket(&socket4[..6], true, true, Endian::Little), None);
        assert_eq!(socket(&[9, 9, 9], true, true, Endian::Little), None);
        let id: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(
            uuid(&id, false, false),
            "00010203-0405-0607-0809-0a0b0c0d0e0f"
        );
        assert_eq!(
            uuid(&id, true, true),
            "03020100-0504-0706-0809-0A0B0C0D0E0F"
        );
    }
}
