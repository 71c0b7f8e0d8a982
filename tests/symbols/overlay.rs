//! Programs on overlayfs, as in containers. The kernel reports inode numbers of the layers or of
//! the overlay.

use std::path::Path;

use crate::support::{Here, Run, c, c_with, folded, needs};

/// `low` is only in the lower layer. `copied` was there and has been modified. `changed` is
/// replaced while it runs. On one file system the inode numbers would agree. Their names end in
/// `$S`: `-a` records the programs of other tests too.
const INSIDE: &str = "
    set -e
    mount -t tmpfs none /mnt
    mkdir /mnt/lower /mnt/upper /mnt/merged
    mount -t tmpfs none /mnt/lower
    mount -t tmpfs none /mnt/upper
    mkdir /mnt/upper/files /mnt/upper/work
    cp \"$1\" /mnt/lower/low$S
    cp \"$1\" /mnt/lower/copied$S
    cp \"$1\" /mnt/lower/changed$S
    cp \"$2\" /mnt/other
    mount -t overlay overlay /mnt/merged \
        -o lowerdir=/mnt/lower,upperdir=/mnt/upper/files,workdir=/mnt/upper/work
    touch /mnt/merged/copied$S /mnt/merged/changed$S
    cd /mnt/merged
    shift 2
    \"$@\"
";

const PROGRAMS: &str = "./low$S 0.3; ./copied$S 0.3; ./changed$S 0.5 & \
    until grep -q libc /proc/$!/maps; do sleep 0.01; done; mv ../other changed$S; wait";

fn assert_all_named(stacks: &Run, suffix: &str, what: &str) {
    let stacks = folded(stacks);
    for program in ["low", "copied", "changed"].map(|name| format!("{name}{suffix}")) {
        let (mut all, mut named) = (0, 0);
        for (stack, weight) in &stacks {
            let mut frames = stack.split(';');
            if frames.next() == Some(&program) {
                all += weight;
                let is_burn =
                    |name: &str| ["burn_seventy", "burn_twenty", "burn_ten"].contains(&name);
                named += if frames.any(is_burn) { *weight } else { 0 };
            }
        }
        let share = named as f64 / all as f64;
        assert!(share > 0.85, "{share} of {all} in {program}, {what}");
    }
}

fn programs() -> [std::path::PathBuf; 2] {
    [c("shares.c"), c_with("shares.c", &["-Wl,--build-id=none"])]
}

/// Returns six random characters: the end of the test folder's name.
fn suffix(here: &Here) -> String {
    let folder = here.path("");
    let folder = folder.to_str().expect("paths here are UTF-8");
    let folder = folder.trim_end_matches('/');
    folder[folder.len() - 6..].to_owned()
}

/// The files are never visible outside.
#[test]
fn programs_on_an_overlay_of_a_container_are_named() {
    needs!(PerfEvents, Overlay);
    for (program, all) in programs().into_iter().zip([&["-g"][..], &["-g -a", ""]]) {
        for options in all {
            let here = Here::new();
            let suffix = suffix(&here);
            let record = here.rprof("record -q -F 999 -e cpu-clock:u").words(options);
            let record = record.env("S", &suffix);
            let record = record.words("-- unshare -m sh -c").arg(INSIDE).arg("sh");
            let record = record.arg(&program).arg(c("threads.c"));
            record.words("sh -c").arg(PROGRAMS).ok();
            let what = format!("{} with {options:?}", program.display());
            assert_all_named(&here.rprof("collapse").ok(), &suffix, &what);
        }
    }
}

/// Two of the three files still exist.
#[test]
fn programs_on_our_own_overlay_are_named() {
    needs!(PerfEvents, Overlay);
    for program in programs() {
        let here = Here::new();
        let rprof = Path::new(env!("CARGO_BIN_EXE_rprof"));
        let (data, suffix) = (here.path("r.data"), suffix(&here));
        let script = "\"$0\" record -q -F 999 -g -e cpu-clock:u -o \"$1\" -- sh -c \"$2\" &&
            exec \"$0\" collapse -i \"$1\"";
        let run = here
            .command("unshare")
            .env("S", &suffix)
            .words("-m sh -c")
            .arg(INSIDE)
            .arg("sh");
        let run = run.arg(&program).arg(c("threads.c"));
        let run = run.words("sh -c").arg(script).arg(rprof).arg(data);
        let what = format!("{} from inside", program.display());
        assert_all_named(&run.arg(PROGRAMS).ok(), &suffix, &what);
    }
}
