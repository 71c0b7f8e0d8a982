//! Payloads of the event `bpf-output`, written by BPF programs.

use std::io::{self, Write};

const ON_A_LINE: usize = 8;

/// Writes the bytes as perf does: in hexadecimal, as characters, and as a string if they are
/// printable up to a padding of NULs.
pub(crate) fn write(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    for (number, line) in bytes.chunks(ON_A_LINE).enumerate() {
        let heading = if number == 0 { "BPF output:" } else { "" };
        write!(out, "{heading:>17} {:04x}:", number * ON_A_LINE)?;
        for byte in line {
            write!(out, " {byte:02x}")?;
        }
        let missing = ON_A_LINE - line.len();
        let characters = line.iter().map(|byte| match is_printable(*byte) {
            true => char::from(*byte),
            false => '.',
        });
        let characters: String = characters.collect();
        writeln!(
            out,
            "{:1$}  {characters}{2:3$}",
            "",
            missing * 3,
            "",
            missing
        )?;
    }
    match string(bytes) {
        Some(text) => writeln!(out, "{:>17} \"{text}\"", "BPF string:"),
        None => Ok(()),
    }
}

fn is_printable(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

/// Returns the text before the first NUL, if it is printable and only NULs follow.
fn string(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let (text, rest) = bytes.split_at(end);
    let good = text.iter().all(|byte| is_printable(*byte)) && rest.iter().all(|byte| *byte == 0);
    std::str::from_utf8(text).ok().filter(|_| good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_perf_6_1_prints_them() {
        let text = |bytes: &[u8]| {
            let mut out = Vec::new();
            write(bytes, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(b"Raise me\x00\x00"),
            concat!(
                "\n      BPF output: 0000: 52 61 69 73 65 20 6d 65  Raise me\n",
                "                  0008: 00 00                    ..      \n",
                "      BPF string: \"Raise me\"\n",
            )
        );
        assert!(!text(b"no\x1bstring\0").contains("BPF string"));
        assert!(!text(b"text\0more").contains("BPF string"));
        assert!(!text(b"no NUL").contains("BPF string"));
    }
}
