use super::*;

fn item(name: &str, bytes: usize) -> WindowFile {
    WindowFile {
        name: name.to_owned(),
        bytes: vec![b'x'; bytes],
    }
}

fn window() -> Vec<WindowFile> {
    vec![
        item("stacks/a", 10),
        item("hosts/a", 10),
        item("samples/a", 10),
    ]
}

fn open(path: &Path) -> Spool {
    Spool::open(path, false).unwrap()
}

#[test]
fn files_come_back_in_order_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path());
    spool.keep(7, &window()).unwrap();
    let queued = spool.windows().unwrap();
    let mut names = Vec::new();
    while let Some((name, item)) = spool.next_item(&queued[0]).unwrap() {
        names.push(item.name);
        spool.sent(&queued[0], &name).unwrap();
        if spool.windows().unwrap().is_empty() {
            break;
        }
    }
    assert_eq!(names, ["stacks/a", "hosts/a", "samples/a"]);
    assert_eq!(
        spool.bytes(),
        fs::metadata(folder.path().join("ledger.json")).map_or(0, |m| m.len())
    );
}

#[test]
fn a_window_that_was_open_when_the_agent_died_is_lost_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path());
    spool.begin_window(60).unwrap();
    drop(spool);
    let mut spool = open(folder.path());
    assert_eq!((spool.untold(), spool.lost()), (1, 1));
    drop(spool);
    spool = open(folder.path());
    assert_eq!(spool.untold(), 1);
    spool.begin_window(120).unwrap();
    spool.keep(120, &window()).unwrap();
    assert_eq!(spool.untold(), 0);
    spool.begin_window(180).unwrap();
    spool.cancel(180).unwrap();
    assert_eq!(
        (open(folder.path()).untold(), open(folder.path()).lost()),
        (0, 1)
    );
}

/// The window is stored, but the ledger does not count it yet.
#[test]
fn a_kill_between_window_and_ledger_loses_and_tells_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path());
    spool.begin_window(60).unwrap();
    drop(spool);
    let mut spool = open(folder.path());
    spool.begin_window(120).unwrap();
    let ledger = fs::read(folder.path().join("ledger.json")).unwrap();
    spool.keep(120, &window()).unwrap();
    fs::write(folder.path().join("ledger.json"), ledger).unwrap();
    let spool = open(folder.path());
    assert_eq!((spool.untold(), spool.lost()), (0, 1));
    assert_eq!(spool.windows().unwrap().len(), 1);
}

#[test]
fn half_windows_and_half_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let half = folder.path().join("queue/.new-7");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("0000,hosts,a"), "x").unwrap();
    fs::write(folder.path().join(".new-123456"), "x").unwrap();
    let spool = open(folder.path());
    assert!(!half.exists() && !folder.path().join(".new-123456").exists());
    assert!(spool.windows().unwrap().is_empty());
}

#[test]
fn what_is_dropped_is_told_by_the_next_window_with_what_it_would_have_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path());
    spool.begin_window(0).unwrap();
    spool.lose(0);
    spool.keep(60, &window()).unwrap();
    assert!(spool.drop_oldest().unwrap());
    assert_eq!((spool.untold(), spool.lost()), (2, 2));
    spool.keep(120, &window()).unwrap();
    let queued = spool.windows().unwrap()[0].clone();
    for _ in 0..2 {
        let (name, _) = spool.next_item(&queued).unwrap().unwrap();
        spool.sent(&queued, &name).unwrap();
    }
    // Its `hosts` row was uploaded, so both losses are reported.
    assert!(spool.drop_oldest().unwrap());
    assert_eq!((spool.untold(), spool.lost()), (1, 3));
    assert!(!spool.drop_oldest().unwrap());
}

#[test]
fn a_kill_while_dropping_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path());
    spool.keep(60, &window()).unwrap();
    let name = spool.windows().unwrap()[0].name();
    spool
        .ledger
        .change(&spool.folder, |entries| {
            entries.lost += 1;
            entries.owed += 1;
            entries.dropping = Some(name);
        })
        .unwrap();
    let spool = open(folder.path());
    assert!(spool.windows().unwrap().is_empty());
    assert_eq!(spool.untold(), 1);
}

#[test]
fn what_may_have_been_sent_is_not_sent_twice_to_a_server_that_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(folder.path(), true).unwrap();
    spool.keep(60, &window()).unwrap();
    let queued = spool.windows().unwrap()[0].clone();
    let (name, _) = spool.next_item(&queued).unwrap().unwrap();
    let sending = spool.begin_sending(&queued, name.clone()).unwrap();
    spool.put_back(&queued, &sending).unwrap();
    assert_eq!(spool.next_item(&queued).unwrap().unwrap().0, name);
    spool.begin_sending(&queued, name).unwrap();
    let spool = Spool::open(folder.path(), true).unwrap();
    assert_eq!(spool.next_item(&queued).unwrap().unwrap().1.name, "hosts/a");
    assert_eq!(spool.lost(), 1);
}

#[test]
fn what_is_refused_stands_aside_with_the_reason_and_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path());
    spool.keep(60, &window()).unwrap();
    let queued = spool.windows().unwrap()[0].clone();
    let (name, _) = spool.next_item(&queued).unwrap().unwrap();
    spool.quarantine(&queued, &name, "status 400: no").unwrap();
    assert_eq!(spool.quarantined(), 1);
    let why = fs::read_dir(folder.path().join("quarantine"))
        .unwrap()
        .flatten();
    let why: Vec<_> = why
        .filter(|e| e.file_name().to_string_lossy().ends_with(WHY))
        .collect();
    assert_eq!(fs::read_to_string(why[0].path()).unwrap(), "status 400: no");
    while spool.quarantined() > 0 {
        spool.drop_oldest().unwrap();
    }
    assert_eq!(spool.windows().unwrap().len(), 1);
    assert_eq!(spool.lost(), 0);
}

#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("spool");
    let mut spool = open(&root);
    spool.keep(60, &window()).unwrap();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().mode() & 0o077,
            0,
            "{folder:?}"
        );
        for entry in fs::read_dir(folder).unwrap().flatten() {
            assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{entry:?}");
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
}
