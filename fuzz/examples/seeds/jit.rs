//! Seeds for JIT code: perf maps, and jitdumps in both byte orders.

use super::{Result, Seeds};

pub(super) fn perf_maps(seeds: &Seeds) -> Result<()> {
    seeds.put(
        "usual",
        b"7f0000001000 40 LazyCompile:~f /a.js:1:2\n7f0000001040 20 py::f:/a.py\n\
          7f0000001000 20 JS:*f /a.js:1:2\n",
    )?;
    seeds.put(
        "overlap",
        b"10 10 a\n20 10 b\n30 10 c\n18 20 over\n1c 4 in\n",
    )?;
    seeds.put(
        "odd",
        b"\n0x10 0X20 y\n0x10 20 x\r\nffffffffffffffff ffffffffffffffff end\n\
          10000000000000000 1 far\n10 0 none\n12 0 none\n1 2\nz z z\n5 5  \n6 6 \xff\x1b[2J",
    )
}

/// Writes a jitdump.
struct Dump {
    big: bool,
    bytes: Vec<u8>,
}

impl Dump {
    fn new(big: bool, flags: u64) -> Dump {
        let bytes = Vec::new();
        let mut dump = Dump { big, bytes };
        dump.u32s(&[0x4a69_5444, 1, 40, 62, 0, 7]);
        dump.u64s(&[1, flags]);
        dump
    }

    fn u32s(&mut self, values: &[u32]) {
        for value in values {
            self.bytes.extend(match self.big {
                true => value.to_be_bytes(),
                false => value.to_le_bytes(),
            });
        }
    }

    fn u64s(&mut self, values: &[u64]) {
        for value in values {
            self.bytes.extend(match self.big {
                true => value.to_be_bytes(),
                false => value.to_le_bytes(),
            });
        }
    }

    fn record(&mut self, kind: u32, time: u64, words: &[u64], rest: &[u8]) {
        self.u32s(&[kind, (16 + 8 * words.len() + rest.len()) as u32]);
        self.u64s(&[time]);
        self.u64s(words);
        self.bytes.extend(rest);
    }

    fn lines(&mut self, time: u64, start: u64, lines: &[(u64, u32, &[u8])]) {
        let names: usize = lines.iter().map(|(_, _, name)| name.len() + 1).sum();
        self.u32s(&[2, (32 + 16 * lines.len() + names) as u32]);
        self.u64s(&[time, start, lines.len() as u64]);
        for (at, line, name) in lines {
            self.u64s(&[*at]);
            self.u32s(&[*line, 0]);
            self.bytes.extend(*name);
            self.bytes.push(0);
        }
    }
}

pub(super) fn jitdumps(seeds: &Seeds) -> Result<()> {
    for (name, big) in [("little", false), ("big", true)] {
        let mut dump = Dump::new(big, 0);
        dump.lines(
            90,
            0x1000,
            &[(0x1000, 1, b"a"), (0x1004, 2, b"\xff"), (0x1008, 3, b"b")],
        );
        dump.record(0, 256, &[0, 0x1000, 0x1000, 0x20, 1], b"f\0code");
        dump.record(4, 300, &[8, 8, 0], b"eh frame");
        dump.record(1, 512, &[0, 0x2000, 0x1000, 0x2000, 0x20, 1], b"");
        dump.record(0, 768, &[0, 0x1010, 0x1010, 0x20, 2], b"g\0");
        dump.record(9, 800, &[], b"?");
        dump.record(3, 900, &[], b"");
        seeds.put(name, &dump.bytes)?;
        seeds.put(&format!("{name}_cut"), &dump.bytes[..150])?;
    }
    let mut dump = Dump::new(false, 1);
    for i in 0..6 {
        let start = u64::MAX - 64 + 8 * i;
        dump.record(0, 1000 - i, &[0, start, start, u64::MAX, i], b"n\0");
    }
    dump.record(1, 5, &[0, 0, 8, 16, 8, 99], b"");
    seeds.put("edges", &dump.bytes)
}
