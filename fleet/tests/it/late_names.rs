//! Missing names, from local folders.

use std::fs;
use std::path::Path;
use std::process::Command;

use rprof_fleet_table::rows::{
    FrameLine, FrameRow, Identity, ImageRow, LocationRow, SampleRow, StackRow,
};
use rprof_fleet_table::{Id, Tables, WINDOW_US, folder};
use rprof_testing::needs;

use crate::hosts::Plan;
use crate::support::Scene;

const SOURCE: &str = "
__attribute__((noinline)) int deep(int x) { volatile int y = x * 3; return y; }
__attribute__((noinline)) int work(int x) { volatile int y = deep(x); return y; }
int main(int c, char **v) { return work(c); }
";

/// A program with separate debug information, as in distribution packages, and the file offsets of
/// its functions from `nm`.
pub struct Program {
    pub build_id: String,
    pub offsets: Vec<(String, u64)>,
}

fn tool(folder: &Path, line: &str) -> String {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().expect("a tool"));
    let output = command
        .args(words)
        .current_dir(folder)
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Compiles the program. Writes its stripped image and its debug file to `.build-id` of the folder.
pub fn program(folder: &Path) -> Program {
    fs::write(folder.join("a.c"), SOURCE).expect("written");
    // With this segment base, a file offset is an address minus 0x400000.
    tool(
        folder,
        "gcc -g -O1 -no-pie -Wl,-Ttext-segment=0x400000 -Wl,--build-id=sha1 a.c -o a",
    );
    let notes = tool(folder, "readelf -n a");
    let build_id = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "))
        .expect("a build-id")
        .to_owned();
    let symbols = tool(folder, "nm a");
    let offsets = symbols.lines().filter_map(|line| {
        let (address, name) = line.split_once(" T ")?;
        let address = u64::from_str_radix(address, 16).expect("an address") - 0x40_0000;
        ["main", "work", "deep"]
            .contains(&name)
            .then(|| (name.to_owned(), address))
    });
    let offsets = offsets.collect();
    let (first, rest) = build_id.split_at(2);
    fs::create_dir_all(folder.join(".build-id").join(first)).expect("a folder");
    tool(
        folder,
        &format!("objcopy --only-keep-debug a .build-id/{first}/{rest}.debug"),
    );
    tool(
        folder,
        &format!("objcopy --strip-all a .build-id/{first}/{rest}"),
    );
    fs::remove_file(folder.join("a")).expect("removed");
    Program { build_id, offsets }
}

/// Writes the tables of a host that has the program without symbols.
pub fn nameless(scene: &Scene, program: &Program, hour: i64) {
    let mut tables = Tables::default();
    tables.images.push(ImageRow {
        image_id: Id::of_image(&program.build_id),
        build_id: Some(program.build_id.clone()),
        path: "/nowhere/app".to_owned(),
        kind: "file",
        symbols: "wanted",
    });
    let mut ids = Vec::new();
    for (_, offset) in &program.offsets {
        let location_id = Id::of_address(&program.build_id, *offset);
        tables.locations.push(LocationRow {
            location_id,
            image_id: Id::of_image(&program.build_id),
            address: Some(offset.cast_signed()),
        });
        tables.frames.push(FrameRow {
            location_id,
            symbols_rank: 0,
            lines: vec![FrameLine {
                function: Some(format!("app+{offset:#x}")),
                file: None,
                line: None,
                inlined: false,
            }],
        });
        ids.push(location_id);
    }
    for (depth, samples) in (1..=ids.len()).zip([5, 30, 200]) {
        let stack_id = Id::of_stack(ids[..depth].iter().copied());
        tables.stacks.push(StackRow {
            stack_id,
            location_ids: ids[..depth].to_vec(),
        });
        tables.samples.push(SampleRow {
            window_start: hour * 1_000_000,
            window_us: WINDOW_US,
            identity: Identity {
                service: "app".to_owned(),
                ..Identity::default()
            },
            host: "web-1".to_owned(),
            comm: "app".to_owned(),
            thread: "app".to_owned(),
            event: "cpu-clock".to_owned(),
            unit: "nanoseconds",
            period: 1e7,
            stack_id,
            samples,
            value: samples * 10_000_000,
            scale: 1.0,
        });
    }
    for file in tables.files("web-1", hour).expect("files") {
        folder::put(scene.path(), &file).expect("written");
    }
}

/// Returns the counts of folded stacks.
pub fn numbers(folded: &str) -> Vec<&str> {
    let mut all: Vec<&str> = folded
        .lines()
        .filter_map(|line| Some(line.rsplit_once(' ')?.1))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn names_change_and_numbers_do_not() {
    needs!(Tool("gcc"), Tool("objcopy"), Tool("readelf"), Tool("nm"));
    let debug = tempfile::tempdir().expect("a folder");
    let program = program(debug.path());
    assert_eq!(program.offsets.len(), 3);
    let scene = Scene::empty();
    let hour = Plan::default().hour;
    nameless(&scene, &program, hour);
    nameless(&scene, &program, hour + 3_600);
    let before = scene.run("export --format folded").0;
    assert!(
        before.contains("app+0x") && !before.contains("work"),
        "{before}"
    );
    let words = format!("symbolize --debug-dir {}", debug.path().display());
    let (_, told) = scene.run(&words);
    assert!(
        told.contains("3 of 3 addresses named") && told.contains("6 rows appended"),
        "{told}"
    );
    let after = scene.run("export --format folded").0;
    assert_eq!(numbers(&after), numbers(&before));
    assert!(!after.contains("app+0x"), "{after}");
    for (name, offset) in &program.offsets {
        let located = format!("app+{offset:#x}");
        let of =
            |folded: &str, name: &str| folded.lines().filter(|line| line.contains(name)).count();
        assert_eq!(
            of(&after, name),
            of(&before, &located),
            "{name}: {before}{after}"
        );
    }
    // Also in SQL, with source lines.
    let lines = scene.sql("SELECT DISTINCT l['function'], l['line'] > 1 FROM (SELECT unnest(lines) AS l FROM frames) ORDER BY 1");
    assert_eq!(
        lines.lines().skip(1).collect::<Vec<_>>(),
        ["deep,true", "main,true", "work,true"]
    );
    // A second run has nothing to do, and compaction keeps the better names.
    let (_, told) = scene.run(&words);
    assert!(told.contains("0 rows appended"), "{told}");
    scene.run("compact");
    scene.run("compact --grace 0");
    assert_eq!(scene.run("export --format folded").0, after);
}

#[test]
fn another_build_of_the_image_names_nothing() {
    needs!(Tool("gcc"), Tool("objcopy"), Tool("readelf"), Tool("nm"));
    let debug = tempfile::tempdir().expect("a folder");
    let mut program = program(debug.path());
    let (first, rest) = program.build_id.split_at(2);
    let folder = debug.path().join(".build-id").join(first);
    let digit = if rest.ends_with('0') { '1' } else { '0' };
    let other = format!("{}{digit}", &rest[..rest.len() - 1]);
    for suffix in ["", ".debug"] {
        fs::rename(
            folder.join(format!("{rest}{suffix}")),
            folder.join(format!("{other}{suffix}")),
        )
        .expect("renamed");
    }
    program.build_id = format!("{first}{other}");
    let scene = Scene::empty();
    nameless(&scene, &program, Plan::default().hour);
    let (_, told) = scene.run(&format!("symbolize --debug-dir {}", debug.path().display()));
    assert!(
        told.contains("0 of 3 addresses named") && told.contains("0 rows appended"),
        "{told}"
    );
}
