//! `--vmlinux`: kernel symbols from a given file.

use std::path::PathBuf;

use crate::support::{Here, c, needs};

/// Renames `function`, linked to another address. Distances are from /proc/kallsyms.
fn made_up(here: &Here, function: &str, build_id: &str) -> PathBuf {
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("kallsyms");
    let symbols: Vec<(u64, &str)> = (symbols.lines())
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.nth(1)?))
        })
        .collect();
    let address = |name: &str| {
        let found = symbols.iter().find(|(_, known)| *known == name);
        found.unwrap_or_else(|| panic!("no {name} in kallsyms")).0
    };
    const BASE: u64 = 0xffff_ffff_9000_0000;
    let start = address(function);
    let after = symbols
        .iter()
        .map(|(address, _)| *address)
        .filter(|a| *a > start)
        .min();
    let (distance, size) = (
        start - address("_text"),
        after.expect("not the last") - start,
    );
    let source = format!(
        ".file 1 \"/made/up/kernel.c\"\n.text\n_text: nop\n\
         .section .hot, \"ax\"\n.type made_up, @function\nmade_up:\n.loc 1 77 1\n\
         .rept {size}\nnop\n.endr\n.size made_up, . - made_up\n"
    );
    std::fs::write(here.path("kernel.s"), source).expect("written");
    here.sh("as -gdwarf-5 -o kernel.o kernel.s").ok();
    let link = format!(
        "ld -e 0 -Ttext={BASE:#x} --section-start=.hot={:#x} --build-id=0x{build_id} -o vmlinux kernel.o",
        BASE + distance
    );
    here.sh(&link).ok();
    here.path("vmlinux")
}

fn running_build_id(here: &Here) -> String {
    let header = here.rprof("header --format json").ok().out();
    let json: serde_json::Value = serde_json::from_str(&header).expect("JSON");
    let images = json["images"].as_array().expect("images");
    let kernel = images
        .iter()
        .find(|image| image["path"] == "[kernel.kallsyms]");
    let id = kernel.and_then(|kernel| kernel["build_id"].as_str());
    id.unwrap_or_else(|| panic!("no build-id of the kernel in {header}"))
        .to_owned()
}

#[test]
fn vmlinux_names_functions_and_lines_of_its_kernel_only() {
    needs!(PerfEvents, Kernel, X86Assembler);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.3");
    let before = here.report("");
    assert!(before.only().total_share("vfs_read") > 0.3);

    let vmlinux = made_up(&here, "vfs_read", &running_build_id(&here));
    let options = format!("--vmlinux {}", vmlinux.display());
    let after = here.report(&options);
    // kallsyms names the rest of the function.
    let share = |name: &str| after.only().total_share(name);
    let both = share("made_up") + share("vfs_read");
    assert!(
        share("made_up") > 0.0,
        "{share:?}",
        share = share("made_up")
    );
    assert!(
        (both - before.only().total_share("vfs_read")).abs() < 0.05,
        "{both}"
    );
    assert!(share("ksys_read") > 0.3);
    let lines = here.rprof("report --sort srcline").words(&options).ok();
    lines.prints("kernel.c:77");

    let other = made_up(&here, "vfs_read", "0123456789abcdef");
    let options = format!("--vmlinux {}", other.display());
    let refused = here.report(&options);
    assert_eq!(refused.only().total_share("made_up"), 0.0);
    assert!(refused.only().total_share("vfs_read") > 0.3);
    let warnings = refused.quality["warnings"].to_string();
    assert!(warnings.contains("build-id"), "{warnings}");
    here.rprof("script").words(&options).ok().says("build-id");
}
