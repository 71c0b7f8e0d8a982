//! Decodes records of an attr's event, encodes them, and decodes them again.
//!
//! Input: one byte of options (bit 0: big-endian), two bytes for the position where the records are
//! split in two (as at the end of a ring buffer), the attr, the records.

use rprof_records::{
    Attr, Endian, RawBytes, RawRecord, Record, Sample, SampleFields, SampleLayout,
};

/// Maximum length for a comparison of debug output, which is slow.
const SMALL: usize = 256;

pub(crate) fn run(data: &[u8]) {
    let Some((&[options, low, high], data)) = data.split_first_chunk::<3>() else {
        return;
    };
    let endian = match options & 1 {
        0 => Endian::Little,
        _ => Endian::Big,
    };
    let Ok(attr) = Attr::parse(data, endian) else {
        return;
    };
    attr_round_trip(&attr, endian);
    let _ = attr.name();
    let said = match RawBytes::from(data).u32(4, endian) {
        Some(0) | None => 64,
        Some(said) => said as usize,
    };
    let records = data.get(said..).unwrap_or_default();
    let cut = usize::from(u16::from_le_bytes([low, high])) % (records.len() + 1);
    let layout = SampleLayout::new(&attr, endian);
    let mut at = 0;
    while let Some(rest) = records.get(at..) {
        let Some(whole) = RawRecord::parse(RawBytes::from(rest), endian) else {
            break;
        };
        let (head, tail) = rest.split_at(cut.saturating_sub(at).min(rest.len()));
        let split = RawRecord::parse(RawBytes::split(head, tail), endian)
            .expect("a cut changes nothing of a header");
        assert_eq!(whole.size(), split.size());
        record(&whole, &split, &layout);
        at += whole.size();
    }
}

fn attr_round_trip(attr: &Attr, endian: Endian) {
    let size = match attr.rest.len() {
        0 => attr.needed_size(),
        rest => 144 + rest,
    };
    let bytes = attr.encode(endian, size).expect("as large as it was");
    assert_eq!(bytes.len(), size);
    let again = Attr::parse(&bytes, endian).expect("as it was written");
    assert_eq!(*attr, again);
}

fn record(whole: &RawRecord<'_>, split: &RawRecord<'_>, layout: &SampleLayout) {
    let id = layout.sample_id(whole);
    assert_eq!(id, layout.sample_id(split));
    assert_eq!(id.time, layout.trailer_time(whole));
    let _ = Record::decode(whole, None);
    let decoded = Record::decode(whole, Some(layout));
    let decoded_split = Record::decode(split, Some(layout));
    let (decoded, decoded_split) = match (decoded, decoded_split) {
        (Ok(decoded), Ok(decoded_split)) => (decoded, decoded_split),
        (Err(a), Err(b)) => {
            assert_eq!(a, b);
            assert!(!a.to_string().is_empty());
            return;
        }
        (a, b) => panic!("a cut made a difference: {a:?}, {b:?}"),
    };
    if let (Record::Sample(a), Record::Sample(b)) = (&decoded, &decoded_split) {
        sample(a, layout);
        assert_eq!(SampleFields::from(a), SampleFields::from(b));
    }
    let (mut first, mut first_split) = (Vec::new(), Vec::new());
    let encoded = decoded.encode(whole.misc, layout, &id, &mut first);
    let encoded_split = decoded_split.encode(whole.misc, layout, &id, &mut first_split);
    assert_eq!(encoded, encoded_split);
    assert_eq!(first, first_split);
    if encoded.is_err() {
        // With padding, the record exceeds its maximum size.
        assert!(first.is_empty());
        return;
    }
    let raw =
        RawRecord::parse(RawBytes::from(&first[..]), layout.endian()).expect("as it was written");
    assert_eq!(raw.size(), first.len());
    assert_eq!(raw.kind, whole.kind);
    let again = Record::decode(&raw, Some(layout)).expect("as it was written");
    // A truncated trailer is written with zeroes.
    if !matches!(decoded, Record::Sample(_) | Record::Other(_))
        && whole.body.len() >= layout.trailer_len()
    {
        assert_eq!(id, layout.sample_id(&raw));
    }
    match (&decoded, &again) {
        (Record::Sample(a), Record::Sample(b)) => {
            let (mut a, b) = (SampleFields::from(a), SampleFields::from(b));
            // Raw data is written with the kernel's padding.
            a.raw.resize(b.raw.len().min(a.raw.len() + 7), 0);
            assert_eq!(a, b);
        }
        _ if first.len() <= SMALL => {
            assert_eq!(format!("{decoded:?}"), format!("{again:?}"));
        }
        _ => {}
    }
    let mut second = Vec::new();
    again
        .encode(raw.misc, layout, &layout.sample_id(&raw), &mut second)
        .expect("as it was written");
    assert!(first == second, "encoding is not stable");
}

fn sample(sample: &Sample<'_>, layout: &SampleLayout) {
    if let Some(chain) = sample.callchain() {
        assert_eq!(chain.iter().count(), chain.len());
        assert_eq!(chain.raw().len(), chain.len() * 8);
        assert_eq!(chain.is_empty(), chain.iter().next().is_none());
    }
    for registers in [sample.regs_user(), sample.regs_intr()]
        .into_iter()
        .flatten()
    {
        for (number, value) in registers.iter() {
            assert_eq!(registers.get(number), Some(value));
        }
        assert_eq!(registers.get(64), None);
    }
    if let Some(branches) = sample.branch_stack() {
        assert_eq!(branches.iter().count(), branches.len());
        let counters = branches.counters().count();
        assert!(counters == 0 || counters == branches.len());
    }
    if let Some(dump) = sample.stack_user() {
        assert!(dump.bytes.len() as u64 <= dump.reserved);
    }
    assert_eq!(
        sample.time().is_some(),
        layout
            .fixed_offset(rprof_records::SampleType::TIME)
            .is_some()
    );
}
