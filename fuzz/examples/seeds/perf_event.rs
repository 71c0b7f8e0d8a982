//! Seeds of `perf_event`.

use rprof_records::{Attr, Endian, SampleType};

use super::{Result, Seeds};

pub(crate) fn seeds(seeds: &Seeds) -> Result<()> {
    for (name, signal, code) in [("in", 29, 1), ("hup", 34, 6), ("full", 29, 0x80), ("trap", 5, 6), ("other", 5, 1)] {
        let mut info = vec![0];
        for word in [signal, 0, code, 0, 0x1000, 0, 42, 0, 5, 1] {
            info.extend(i32::to_ne_bytes(word));
        }
        seeds.put(&format!("siginfo-{name}"), &info)?;
    }
    for (name, index, capabilities) in [("idle", 0, 6), ("counted", 3, 0x1e), ("short", 1, 0x3e), ("old", 1, 1)] {
        let mut page = vec![1];
        for word in [
            123_456_789,
            1 << 47,
            1,
            index << 32 | 2,
            1000,
            5000,
            3000,
            capabilities,
            715_827_883 << 32 | 31 << 16 | 48,
            100,
            200,
            88,
            7,
            0xffff_ffff,
        ] {
            page.extend(u64::to_ne_bytes(word));
        }
        seeds.put(&format!("page-{name}"), &page)?;
    }
    for format in [0_u8, 1, 3, 7, 8, 15, 23, 31] {
        let mut answer = vec![2, format];
        for word in [2_u64, 100, 40, 5, 77, 0, 6, 78, 1] {
            answer.extend(word.to_ne_bytes());
        }
        seeds.put(&format!("read-{format}"), &answer)?;
    }
    let attr = Attr {
        sample_type: SampleType::IDENTIFIER | SampleType::ADDR,
        ..Attr::default()
    };
    let mut records = vec![3];
    records.extend(attr.encode(Endian::NATIVE, 64)?);
    for id in [7_u64, 8] {
        records.extend([9, 0, 0, 0, 2, 0, 24, 0]);
        records.extend(id.to_ne_bytes());
        records.extend(0x1000_u64.to_ne_bytes());
    }
    seeds.put("records", &records)
}
