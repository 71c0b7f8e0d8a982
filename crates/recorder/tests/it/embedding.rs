//! Recordings contain files that reports cannot find later.

use rprof_perfdata::{EmbeddedFile, EmbeddedKind, PerfData};
use rprof_recorder::{Notice, Output};
use rprof_testing::needs;

use crate::support::{options, record};

/// Returns the embedded files of a recording, without build-id entries.
fn kept(data: &PerfData) -> Vec<EmbeddedFile<'_>> {
    let mut files = data.features().embedded_files().unwrap_or_default();
    files.retain(|file| file.kind != EmbeddedKind::BUILD_ID);
    files
}

#[test]
fn a_deleted_program_is_embedded() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("gone");
    let path = folder.path().join("perf.data");
    // A shell that deletes its own executable and then works.
    let script = format!(
        "cp /bin/sh {0}; {0} -c 'rm {0}; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'",
        program.display()
    );
    let summary = record(&script, options(Output::File(path.clone())));
    let shell = std::fs::read("/bin/sh").unwrap();
    let expected = Notice::ImagesEmbedded {
        first: program.clone(),
        count: 1,
        bytes: shell.len() as u64,
        without_code: 0,
    };
    assert_eq!(summary.notices, [expected]);
    let data = PerfData::open(&path).unwrap();
    let embedded = kept(&data);
    let [file] = &embedded[..] else {
        panic!("{} files", embedded.len());
    };
    assert_eq!(file.kind, EmbeddedKind::IMAGE);
    assert_eq!(*file.path, *program.as_os_str().as_encoded_bytes());
    assert_eq!(file.contents().unwrap(), shell);
}

#[test]
fn what_stays_where_it_is_is_not() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let summary = record(
        "true; ls / > /dev/null",
        options(Output::File(path.clone())),
    );
    assert_eq!(summary.notices, []);
    let data = PerfData::open(&path).unwrap();
    assert!(kept(&data).is_empty());
}
