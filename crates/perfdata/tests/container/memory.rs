//! Sections that span the whole file are not copied.

use rprof_perfdata::{Feature, PerfData};

use crate::made;

#[test]
fn sections_that_all_span_the_file_take_no_memory() {
    let mut bytes = made::file(0, rprof_perfdata::WriteOptions::default());
    let data_at = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    let data_len = u64::from_le_bytes(bytes[48..56].try_into().unwrap());
    let table = (data_at + data_len) as usize;
    bytes.truncate(table);
    bytes[72..104].fill(0xff);
    let len = 32u64 << 20;
    for _ in 0..Feature::MAX {
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(len.to_le_bytes());
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    // The rest is a hole.
    file.as_file().set_len(len).unwrap();
    let before = resident();
    let data = PerfData::open(file.path()).unwrap();
    assert_eq!(data.features().len(), 256);
    let total: usize = data.features().iter().map(|(_, b)| b.len()).sum();
    assert_eq!(total as u64, 256 * len);
    let taken = resident().saturating_sub(before);
    // Other tests run at the same time; copies would take 8 GiB.
    assert!(taken < 512 << 20, "{taken} bytes");
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).unwrap();
    pages.parse::<u64>().unwrap() * 4096
}
