//! Fields that perf 6.1 does not know or few machines record, from synthetic samples.

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use rprof_analysis::Samples;
use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, PerfData, RecordWriter};
use rprof_records::{
    Attr, BranchSampleType, Endian, EventKind, Misc, RecordType, SampleType, put_record,
};
use rprof_script::{FieldList, Script, ScriptError, ScriptOptions};
use rprof_symbols::Symbolizer;
use rprof_testing::needs;

/// Returns a recording with one event and one sample.
fn recording(attr: Attr, name: &str, words: &[u64]) -> Vec<u8> {
    let event = EventDescription {
        attr,
        name: name.into(),
        ids: vec![1],
    };
    let endian = Endian::NATIVE;
    let mut record = Vec::new();
    put_record(&mut record, RecordType::SAMPLE, Misc::USER, endian, |out| {
        out.extend(words.iter().flat_map(|word| endian.put_u64(*word)));
    })
    .unwrap();
    let mut bytes = Vec::new();
    let mut writer = FileWriter::create(Cursor::new(&mut bytes), vec![event]).unwrap();
    writer.write_records(&record).unwrap();
    writer.finish(FeatureSections::new(endian)).unwrap();
    bytes
}

fn shown(bytes: &[u8], list: &str) -> Result<String, ScriptError> {
    let data = PerfData::read(bytes, Path::new("test")).unwrap();
    let mut options = ScriptOptions::default();
    options.fields.apply(&FieldList::parse(list).unwrap());
    let script = Script::new(&data, &options)?;
    let symbolizer = Symbolizer::builder().build();
    let samples = Samples::read_with(&data, &symbolizer, &Default::default(), &script.details());
    let mut out = Vec::new();
    script.write(&samples, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn word(bytes: &[u8; 8]) -> u64 {
    u64::from_ne_bytes(*bytes)
}

/// Returns a sample with two branches, their index and counters, a stack, and AUX data.
fn everything() -> Vec<u8> {
    let attr = Attr {
        kind: EventKind::HARDWARE,
        sample_type: SampleType::BRANCH_STACK | SampleType::STACK_USER | SampleType::AUX,
        branch_sample_type: BranchSampleType::HW_INDEX | BranchSampleType::COUNTERS,
        sample_stack_user: 8,
        ..Attr::default()
    };
    let branches = [2, 7, 0x1000, 0x2000, 1, 0x3000, 0x4000, 2, 0xa, 0xb];
    let stack = [8, word(b"thestack"), 5];
    let aux = [8, word(b"aux data")];
    recording(attr, "cycles", &[&branches[..], &stack, &aux].concat())
}

#[test]
fn hardware_index_and_counters_of_branches_are_shown() {
    let text = shown(&everything(), "event,brstack,hw_index,brcntr").unwrap();
    assert!(text.contains(" 0x1000/0x2000/M/-/-/0/ "), "{text}");
    assert!(text.contains(" hw_index=7 brcntr=0xa,0xb"), "{text}");
    // Each field also works alone.
    let alone = shown(&everything(), "event,hw_index").unwrap();
    assert!(
        alone.contains("hw_index=7") && !alone.contains("0x1000"),
        "{alone}"
    );
}

#[test]
fn stack_and_aux_are_shown_with_their_bytes() {
    let text = shown(&everything(), "event,stack,aux").unwrap();
    // Only valid bytes are shown, not the reserved space.
    assert!(
        text.contains(" stack=5/8\n\t0000: 74 68 65 73 74 "),
        "{text}"
    );
    assert!(text.contains("  thest aux=8\n\t0000: 61 75 78 "), "{text}");
    assert!(text.contains("  aux data\n"), "{text}");
}

#[test]
fn fields_that_branches_lack_are_refused_by_name() {
    let attr = Attr {
        kind: EventKind::HARDWARE,
        sample_type: SampleType::BRANCH_STACK,
        ..Attr::default()
    };
    let bytes = recording(attr, "cycles", &[0]);
    for field in ["hw_index", "brcntr", "aux"] {
        let error = shown(&bytes, &format!("event,{field}")).unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
    assert!(shown(&bytes, "event,brstack").is_ok());
}

#[test]
fn what_bpf_programs_write_reads_as_in_perf() {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        config: 10,
        period_or_freq: 1,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::RAW,
        ..Attr::default()
    };
    // Address, thread, time, 20 bytes of raw data: a four-byte length and the payload.
    let length = u64::from_ne_bytes([[20, 0, 0, 0], *b"Rais"].concat().try_into().unwrap());
    let words = [
        0x1000,
        7 | 7 << 32,
        5_000_000_000,
        length,
        word(b"e a BPF "),
        word(b"event!\0\0"),
    ];
    let bytes = recording(attr, "bpf-output", &words);
    let ours = shown(&bytes, "+tid").unwrap();
    assert!(
        ours.contains("BPF string: \"Raise a BPF event!\""),
        "{ours}"
    );
    needs!(Perf);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let mut command = Command::new("perf");
    command.args(["script", "-f", "-i"]);
    let output = command.arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let perfs = String::from_utf8(output.stdout).unwrap();
    assert_eq!(ours, perfs);
}
