//! `rprof header`: metadata of a recording.

use serde_json::Value;

use crate::support::{Here, c, needs};

fn header(here: &Here) -> Value {
    let run = here.rprof("header --format json").ok();
    serde_json::from_slice(run.bytes()).unwrap_or_else(|e| panic!("{e} in\n{run}"))
}

#[test]
fn header_has_machine_command_and_events() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c("shares.c");
    here.record("-F 777 -g -e cpu-clock", &program, "0.1");
    let json = header(&here);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(json["os_release"], kernel.trim_end());
    assert_eq!(json["architecture"], std::env::consts::ARCH);
    assert_eq!(json["mode"], "file");
    let date = here.sh("date -u -r perf.data +%Y-%m-%dT%H:%M:%SZ").ok();
    assert_eq!(json["captured_on"], date.out().trim_end());
    let words: Vec<_> = json["command_line"]
        .as_array()
        .expect("command line")
        .iter()
        .collect();
    assert_eq!(words.last().unwrap().as_str(), Some("0.1"));
    assert!(
        words.iter().any(|w| w.as_str() == program.to_str()),
        "{words:?}"
    );
    let event = &json["events"][0];
    assert_eq!(event["name"], "cpu-clock");
    assert_eq!(event["frequency"], 777);
    assert!(
        event["sample_fields"]
            .as_array()
            .unwrap()
            .contains(&"CALLCHAIN".into()),
        "{event}"
    );
    let text = here.rprof("header").ok();
    text.prints(kernel.trim_end())
        .prints("777 Hz")
        .prints("shares 0.1");
}

#[test]
fn header_has_the_build_ids_of_what_ran() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    let program = crate::support::c_with("shares.c", &["-Wl,--build-id=0x1234567890abcdef"]);
    here.record("-F 999 -g", &program, "0.2");
    let json = header(&here);
    let images = json["images"].as_array().expect("images");
    let image = images
        .iter()
        .find(|i| i["path"].as_str() == program.to_str());
    let image = image.unwrap_or_else(|| panic!("no {} in {images:?}", program.display()));
    assert_eq!(image["build_id"], "1234567890abcdef");
    let list = here.perf("buildid-list").ok();
    for image in images {
        list.prints(image["path"].as_str().unwrap())
            .prints(image["build_id"].as_str().unwrap());
    }
}

#[test]
fn header_of_a_recording_by_perf_agrees_with_perf() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    here.perf_record("-e cpu-clock,page-faults", &c("shares.c"), "0.1");
    let json = header(&here);
    let list = here.perf("evlist").ok();
    let events = json["events"].as_array().expect("events").iter();
    let names: Vec<_> = events
        .map(|e| e["name"].as_str().unwrap().to_owned())
        .collect();
    let by_perf: Vec<_> = list.out().lines().map(str::to_owned).collect();
    assert_eq!(names, by_perf);
    let listed = here.perf("report --header-only").ok();
    for field in ["hostname", "os_release", "architecture"] {
        listed.prints(json[field].as_str().unwrap_or_else(|| panic!("no {field}")));
    }
}
