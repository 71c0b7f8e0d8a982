//! Files embedded in a recording.

use super::neighbour::{NOBODY, Neighbour, set_mode};
use crate::support::{Here, c, inapplicable, needs};

/// Secret in a perf map's format, which only its permissions protect.
const SECRET: &str = "1000 7ffffffff000 made_up_secret\n";

/// Users can mount any file over the perf map in their namespaces.
const BIND: &str = "
    touch /tmp/perf-$$.map && mount --bind \"$1\" /tmp/perf-$$.map || exit 99
    exec \"$2\" spin 0.4
";

#[test]
fn a_file_that_is_bound_over_a_perf_map_is_not_embedded() {
    needs!(PerfEvents, Root, Tool("setpriv"), Tool("unshare"));
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    let can = here
        .command("setpriv")
        .words(NOBODY)
        .words("unshare -Urm true")
        .run();
    if can.code() != Some(0) {
        inapplicable("namespaces of users are not allowed here");
        return;
    }
    let record = neighbour
        .recorded(&here, "")
        .words("unshare -Urm sh -c")
        .arg(BIND)
        .arg("sh");
    let record = record
        .arg(neighbour.secret(SECRET))
        .arg(neighbour.path("mallory"));
    let run = record.ok();
    let map = format!("/tmp/perf-{}.map", run.out().trim());
    std::fs::remove_file(&map).expect("the neighbour made it");
    run.says(&format!(
        "{map} is not embedded: it cannot be opened: permission denied"
    ));
    let header = here.rprof("header").ok();
    assert!(!header.out().contains(&map), "{header}");
    let report = here.rprof("report").ok();
    assert!(!report.out().contains("made_up_secret"), "{report}");
}

#[test]
fn a_perf_map_of_lines_that_are_none_is_not_embedded() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    let script = "echo 'password=made_up_secret' > /tmp/perf-$$.map; exec \"$1\" spin 0.3";
    let record = neighbour
        .recorded(&here, "")
        .arg("sh")
        .arg("-c")
        .arg(script)
        .arg("sh");
    let run = record.arg(neighbour.path("mallory")).ok();
    let map = format!("/tmp/perf-{}.map", run.out().trim());
    std::fs::remove_file(&map).expect("the neighbour made it");
    run.says(&format!("{map} is not embedded: it has no valid entries"));
    let header = here.rprof("header").ok();
    assert!(!header.out().contains("\nkept "), "{header}");
}

#[test]
fn memory_that_is_no_program_is_not_embedded() {
    needs!(PerfEvents);
    let here = Here::new();
    let record = here
        .rprof("record -v -F 999 -e cpu-clock --keep all --")
        .arg(c("mallory.c"));
    let run = record.words("memfd 0.3 password=made_up_secret").ok();
    run.says("embedded in the recording:").says("mallory");
    let header = here.rprof("header").ok();
    header.prints("kept           image").prints("mallory");
    let out = header.out();
    let mut kept = out.lines().filter(|line| line.starts_with("kept"));
    assert!(!kept.any(|line| line.contains("memfd")), "{header}");
}

#[test]
fn a_link_in_place_of_a_deleted_library_is_not_followed() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    let secret = neighbour.secret("\x7fELF made_up_secret");
    let script = "cd \"$1\" || exit 99; cp ../mallory gone; ./gone spin 0.4 & \
        until grep -q libc /proc/$!/maps; do sleep 0.01; done; \
        ln -s \"$2\" link && mv -f link gone; wait";
    let record = neighbour
        .recorded(&here, "-g")
        .arg("sh")
        .arg("-c")
        .arg(script)
        .arg("sh");
    let run = record.arg(neighbour.path("theirs")).arg(secret).ok();
    run.says("theirs/gone (");
    let header = here.rprof("header").ok();
    let size = std::fs::metadata(neighbour.path("mallory")).unwrap().len();
    header.prints(&format!("image, {size} bytes, "));
    assert!(!header.out().contains("image, 19 bytes"), "{header}");
}

#[test]
fn nothing_is_kept_where_that_is_asked_for() {
    needs!(PerfEvents);
    let here = Here::new();
    here.copy(&c("shares.c"), "gone");
    let script =
        "./gone 0.3 & until grep -q libc /proc/$!/maps; do sleep 0.01; done; rm gone; wait";
    here.rprof("record -q -F 999 -e cpu-clock --keep none -- sh -c")
        .arg(script)
        .ok();
    let header = here.rprof("header").ok();
    assert!(!header.out().contains("\nkept "), "{header}");
}

#[test]
fn a_recording_that_travels_has_all_programs_in_it() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = here.copy(&c("shares.c"), "program");
    let record = here.rprof("record -q -F 999 -e cpu-clock:u --keep all --");
    record.arg(&program).arg("0.3").ok();
    let header = here.rprof("header").ok();
    header.prints("bytes, /").prints("program\n").prints("libc");
    std::fs::remove_file(&program).unwrap();
    let report = here.report("");
    assert!(report.only().self_share("burn_seventy") > 0.4);
}

#[test]
fn a_program_that_its_process_may_not_read_is_not_embedded() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    let hidden = neighbour.path("hidden");
    here.command("cp")
        .arg(neighbour.path("mallory"))
        .arg(&hidden)
        .ok();
    set_mode(&hidden, 0o711);
    let script = "\"$1\" spin 0.3";
    let record = neighbour
        .recorded(&here, "--keep all")
        .arg("sh")
        .arg("-c")
        .arg(script)
        .arg("sh");
    record.arg(&hidden).ok();
    let header = here.rprof("header").ok();
    header.prints("kept ");
    let kept = header
        .out()
        .lines()
        .any(|line| line.starts_with("kept") && line.ends_with("/hidden"));
    assert!(!kept, "{header}");
}
