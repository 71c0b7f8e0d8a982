//! Compares bit fields with `perf script` and `perf report`, bit by bit. The samples are synthetic,
//! because few machines record these fields.

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use rprof_analysis::Samples;
use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, PerfData, RecordWriter};
use rprof_records::{
    Attr, BranchEntry, BranchFlags, BranchSampleType, Endian, EventKind, Misc, SampleFields,
    SampleLayout, SampleType, Transaction,
};
use rprof_script::{FieldList, Script, ScriptOptions};
use rprof_symbols::Symbolizer;
use rprof_testing::needs;

const COMMON: SampleType = SampleType::IP
    .union(SampleType::TID)
    .union(SampleType::TIME)
    .union(SampleType::CPU)
    .union(SampleType::PERIOD);

/// Returns a recording of samples. `change` sets each word in a sample.
fn recording(
    more: SampleType,
    words: &[u64],
    change: impl Fn(&mut SampleFields, u64),
) -> tempfile::NamedTempFile {
    let attr = Attr {
        kind: EventKind::RAW,
        config: 0x1cd,
        period_or_freq: 1,
        sample_type: COMMON | more,
        branch_sample_type: BranchSampleType::ANY,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let mut records = Vec::new();
    for (number, word) in (1..).zip(words) {
        let mut fields = SampleFields {
            ip: 0x1000,
            pid: 7,
            tid: 7,
            time: number * 1_000_000,
            period: 1,
            ..SampleFields::default()
        };
        change(&mut fields, *word);
        fields.encode(Misc::USER, &layout, &mut records).unwrap();
    }
    let event = EventDescription {
        attr,
        name: "raw 0x1cd".into(),
        ids: vec![1],
    };
    let mut bytes = Vec::new();
    let mut writer = FileWriter::create(Cursor::new(&mut bytes), vec![event]).unwrap();
    writer.write_records(&records).unwrap();
    writer.finish(FeatureSections::new(Endian::NATIVE)).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn of_perf(command: &str, path: &Path) -> Vec<String> {
    let mut words = command.split(' ');
    let mut perf = Command::new("perf");
    perf.arg(words.next().unwrap()).args(["-f", "-i"]).arg(path);
    let output = perf.args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    lines(&String::from_utf8_lossy(&output.stdout))
}

fn ours(list: &str, path: &Path) -> Vec<String> {
    let data = PerfData::open(path).unwrap();
    let mut options = ScriptOptions::default();
    options.fields.apply(&FieldList::parse(list).unwrap());
    let script = Script::new(&data, &options).unwrap();
    let symbolizer = Symbolizer::builder().build();
    let samples = Samples::read_with(&data, &symbolizer, &Default::default(), &script.details());
    let mut out = Vec::new();
    script.write(&samples, &mut out).unwrap();
    lines(&String::from_utf8(out).unwrap())
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[track_caller]
fn assert_same(list: &str, samples: usize, path: &Path) {
    let perf = of_perf(&format!("script -F {list}"), path);
    assert_eq!(perf.len(), samples, "{perf:?}");
    let (ours, differing) = (ours(list, path), |(p, o): &(&String, &String)| p != o);
    assert_eq!(perf.iter().zip(&ours).find(differing), None);
    assert_eq!(ours.len(), samples);
}

fn single_bits(bits: u32) -> Vec<u64> {
    (0..bits).map(|bit| 1 << bit).collect()
}

#[test]
fn sources_of_data_are_those_of_perf() {
    needs!(Perf);
    let field = |from: u32, most: u64| (0..=most).map(move |value| value << from);
    let mut words = single_bits(46);
    // Level number 8 is uncached memory (Linux 6.3), which perf 6.1 does not know.
    words.retain(|word| *word != 8 << 33);
    // All values of level number, remote, hops, lock, and blocked.
    words.extend(
        (0..32)
            .filter(|number| number & 15 != 8)
            .map(|number| number << 33),
    );
    words.extend(field(43, 4).chain(field(24, 3)).chain(field(40, 7)));
    // Hops, several levels and several snoop results at once.
    words.extend([
        0,
        3 << 43 | 1 << 37 | 3 << 33,
        0x6a << 5,
        0x6 << 19 | 1 << 38,
        0x18 << 26,
    ]);
    words.extend([
        0x1e_0508_0021,
        0x118_6810_0242,
        0x102_6810_0142,
        0x6_6808_0144,
    ]);
    let file = recording(
        SampleType::ADDR | SampleType::DATA_SRC,
        &words,
        |fields, word| {
            fields.data_src = word;
        },
    );
    assert_same("time,data_src", words.len(), file.path());
}

#[test]
fn weights_are_those_of_perf() {
    needs!(Perf);
    let words = [single_bits(64), vec![0, u64::MAX, 0x0003_0002_0000_0001]].concat();
    let weight = |fields: &mut SampleFields, word| fields.weight = word;
    let file = recording(SampleType::WEIGHT, &words, weight);
    assert_same("time,weight", words.len(), file.path());
    let file = recording(SampleType::WEIGHT_STRUCT, &words, weight);
    assert_same("time,weight,ins_lat", words.len(), file.path());
    // perf 6.1 names the third one only on POWER.
    let text = ours("p_stage_cyc", file.path());
    assert_eq!(text.last().map(|line| line.trim()), Some("3"));
}

#[test]
fn branches_are_those_of_perf() {
    needs!(Perf);
    let field = |from: u32, most: u64| (0..=most).map(move |value| value << from);
    let mut words = single_bits(20);
    words.extend(field(20, 14));
    words.extend([0, 3, 0xf_ffff]);
    let file = recording(SampleType::BRANCH_STACK, &words, |fields, word| {
        fields.branches = vec![BranchEntry {
            from: 0x1000,
            to: 0x2000,
            flags: BranchFlags(word),
        }];
    });
    assert_same("time,brstack", words.len(), file.path());
}

#[test]
fn transactions_are_those_of_perf_report() {
    needs!(Perf);
    let mut words = single_bits(8);
    words.extend([
        0x6,
        0xff,
        0x1f_0000_0032,
        0xffff_ffff_0000_000a,
        0x1_0000_0000,
    ]);
    let file = recording(SampleType::TRANSACTION, &words, |fields, word| {
        fields.transaction = word;
    });
    let perf = of_perf(
        "report --stdio --sort transaction --percent-limit 0",
        file.path(),
    );
    let mut theirs: Vec<String> = (perf.iter())
        .filter_map(|line| line.trim().split_once("%"))
        .map(|(_, words)| words.trim().to_owned())
        .collect();
    let mut wanted: Vec<String> = words
        .iter()
        .map(|word| Transaction(*word).to_string())
        .collect();
    theirs.sort();
    wanted.sort();
    assert_eq!(theirs, wanted);
    let text = ours("transaction", file.path());
    assert_eq!(text[10].trim(), "0x1f00000032 TX RETRY CON NEITHER :1f");
}
