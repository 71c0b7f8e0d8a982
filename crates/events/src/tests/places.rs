//! Tests of breakpoints and probes.

use super::*;
use std::path::Path;

#[test]
fn a_breakpoint_has_address_length_and_access() {
    let machine = Machine::new();
    let breakpoint = |text| {
        let attr = machine.attr(text);
        (attr.kind.0, attr.bp_type, attr.config1, attr.config2)
    };
    assert_eq!(breakpoint("mem:0x1000"), (5, 3, 0x1000, 4));
    assert_eq!(breakpoint("mem:4096/8"), (5, 3, 0x1000, 8));
    assert_eq!(breakpoint("mem:0x1000/2:w"), (5, 2, 0x1000, 2));
    assert_eq!(breakpoint("mem:0x1000:x"), (5, 4, 0x1000, 8));
    assert_eq!(breakpoint("mem:0x1000:wr:u"), (5, 3, 0x1000, 4));
    let event = &machine.list("mem:0x1000/8:rw:u")[0];
    assert_eq!(event.describe(), "mem:0x1000/8:rw:u");
    assert_eq!(event.default_period(), Some(1));
    assert_eq!(machine.list("mem:16:k")[0].describe(), "mem:16:k");
    assert_eq!(breakpoint("mem:0x1000:r"), (5, 1, 0x1000, 4));
    for text in [
        "mem:",
        "mem:x",
        "mem:1/",
        "mem:1/y",
        "mem:1:rwxr",
        "mem:1:rr",
        "mem:1:q:u",
    ] {
        assert!(machine.parser().parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_breakpoint_watches_data_or_execution() {
    let machine = Machine::new();
    for access in ["rx", "wx", "rwx", "xr", "xwr"] {
        for text in [
            format!("mem:0x1000:{access}"),
            format!("mem:0x1000/8:{access}:u"),
        ] {
            let shown = machine.error(&text).to_string();
            assert!(
                shown.contains("data (r, w, rw) or execution (x)"),
                "{shown}"
            );
        }
    }
    let shown = machine.error("mem:0x1000:rw/8").to_string();
    assert!(!shown.contains("execution"), "{shown}");
    let shown = machine.error("mem:0x1000:q:u").to_string();
    assert!(shown.contains("r, w, rw or x"), "{shown}");
}

pub(super) struct Functions;

impl Resolver for Functions {
    fn file_offset(&self, program: &Path, function: &str) -> Result<u64, String> {
        match (program.to_str(), function) {
            (Some("/bin/x"), "main" | "a::b" | "hub" | "operator+") => Ok(0x1000),
            _ => Err(format!("no function {function} in {}", program.display())),
        }
    }
}

#[test]
fn a_probe_on_a_program_has_path_and_file_offset() {
    let machine = Machine::new();
    let parser = machine.parser().resolver(&Functions);
    let probe = |text: &str| {
        let event = parser.parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut attr = Attr::default();
        event.apply(&mut attr);
        let path = event.probe_path().unwrap().to_str().unwrap().to_owned();
        assert_eq!((attr.kind.0, attr.config1), (8, 0));
        (path, attr.config, attr.config2, event.describe())
    };
    let expect =
        |config, offset, name: &str| ("/bin/x".to_owned(), config, offset, name.to_owned());
    assert_eq!(
        probe("uprobe:/bin/x:main"),
        expect(0, 0x1000, "uprobe:/bin/x:main")
    );
    assert_eq!(
        probe("uretprobe:/bin/x:main+0x10:u"),
        expect(1, 0x1010, "uretprobe:/bin/x:main+0x10:u")
    );
    assert_eq!(probe("uprobe:/bin/x:0x40").2, 0x40);
    for function in ["a::b", "hub", "operator+"] {
        assert_eq!(probe(&format!("uprobe:/bin/x:{function}")).2, 0x1000);
    }
    let missing = parser.parse("uprobe:/bin/x:none").unwrap_err().to_string();
    assert!(missing.contains("no function none in /bin/x"), "{missing}");
    let nobody = machine.error("uprobe:/bin/x:main").to_string();
    assert!(nobody.contains("give a file offset"), "{nobody}");
    for text in [
        "uprobe:",
        "uprobe:/bin/x",
        "uprobe:/bin/x:",
        "uprobe:x:main",
    ] {
        assert!(parser.parse(text).is_err(), "{text}");
    }
    assert_eq!(
        parser.parse("uprobe:/bin/x:1").unwrap().default_period(),
        Some(1)
    );
}

#[test]
fn a_probe_on_the_kernel_has_a_function_or_an_address() {
    let machine = Machine::new();
    let without = machine.error("kprobe:do_exit").to_string();
    assert!(without.contains("CONFIG_KPROBE_EVENTS"), "{without}");
    machine.put("pmu/kprobe/type", "7\n");
    let probe = |text| {
        let event = &machine.list(text)[0];
        let function = event.probe_path().map(|f| f.to_str().unwrap().to_owned());
        (event.kind().0, event.config(), event.config[2], function)
    };
    assert_eq!(probe("kprobe:do_exit"), (7, 0, 0, Some("do_exit".into())));
    assert_eq!(
        probe("kretprobe:do_exit+4:k"),
        (7, 1, 4, Some("do_exit".into()))
    );
    let address = 0xffff_ffff_8100_0000;
    assert_eq!(probe("kprobe:0xffffffff81000000"), (7, 0, address, None));
    assert!(machine.parser().parse("kprobe:").is_err());
}
