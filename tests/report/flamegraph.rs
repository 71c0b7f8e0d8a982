//! `rprof flamegraph`: an SVG of a recording or a command.

use crate::support::{Here, c, cxx, folded, needs, well_formed};

fn svg(here: &Here, name: &str) -> String {
    let path = here.path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn flamegraph_is_well_formed_and_has_the_hot_functions() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.3");
    let run = here.rprof("flamegraph").ok();
    run.says("flamegraph.svg");
    let titles = well_formed(&svg(&here, "flamegraph.svg"));
    for name in [
        "burn_seventy",
        "burn_twenty",
        "burn_ten",
        "do_round",
        "main",
        "shares",
    ] {
        let is_it = |t: &String| {
            t.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(" ("))
        };
        assert!(titles.iter().any(is_it), "{name} is not among {titles:#?}");
    }
}

#[test]
fn flamegraph_has_all_stacks_with_min_width_0() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("syscalls.c"), "0.3");
    let run = here.rprof("flamegraph --min-width 0 -o -").ok();
    let titles = well_formed(&run.out());
    let stacks = folded(&here.rprof("collapse").ok());
    let mut prefixes = std::collections::BTreeSet::new();
    for stack in stacks.keys() {
        let ends = stack
            .match_indices(';')
            .map(|(at, _)| at)
            .chain([stack.len()]);
        prefixes.extend(ends.map(|at| &stack[..at]));
    }
    assert_eq!(titles.len(), prefixes.len() + 1, "{titles:#?}");
}

#[test]
fn flamegraph_escapes_names() {
    needs!(PerfEvents, Cxx);
    let here = Here::new();
    here.record("-F 999 -g", &cxx("names.cpp"), "0.1");
    here.rprof("flamegraph --title <b>&\"' --subtitle </svg>")
        .ok();
    let text = svg(&here, "flamegraph.svg");
    let titles = well_formed(&text);
    for name in [
        "shapes::Polygon<char const*, 3>::spin (",
        "main::{lambda(double)#1}::operator() (",
    ] {
        assert!(
            titles.iter().any(|t| t.starts_with(name)),
            "{name} is not among {titles:#?}"
        );
    }
    assert!(text.contains("&lt;b&gt;&amp;"), "the title");
}

/// With many small hidden callees, a function looks like a leaf.
#[test]
fn flamegraph_states_what_is_too_narrow_to_be_drawn() {
    let here = Here::new();
    let mut text: String = (0..50_001).map(|n| format!("main;child_{n} 1\n")).collect();
    text.push_str("main;wide;a 49999\n");
    std::fs::write(here.path("many.folded"), text).expect("written");
    let sentence = "50,001 frames narrower than 0.01% are not drawn, 50.0% of the weight";
    here.rprof("flamegraph many.folded").ok().says(sentence);
    let text = svg(&here, "flamegraph.svg");
    assert!(text.contains(sentence), "{text}");
    let titles = well_formed(&text);
    let main = titles.iter().find(|title| title.starts_with("main ("));
    let note = "; 50,001 callees too narrow to be drawn: 50.00%)";
    assert!(main.is_some_and(|main| main.ends_with(note)), "{main:?}");
    here.rprof("flamegraph --subtitle mine many.folded").ok();
    assert!(svg(&here, "flamegraph.svg").contains(sentence));
    let quiet = here.rprof("flamegraph -q many.folded").ok();
    assert_eq!(quiet.err(), "");
    let all = here
        .rprof("flamegraph --min-width 0 -o all.svg many.folded")
        .ok();
    assert!(!all.err().contains("not drawn"), "{all}");
    assert!(!svg(&here, "all.svg").contains("not drawn"));
}

#[test]
fn flamegraph_of_a_command_keeps_its_exit_status() {
    needs!(PerfEvents);
    let here = Here::new();
    let shell = here
        .rprof("flamegraph -F 999 -- sh -c")
        .arg("\"$0\" 0.2; exit 3");
    let run = shell.arg(c("shares.c")).exits(3);
    run.says("flamegraph.svg");
    let titles = well_formed(&svg(&here, "flamegraph.svg"));
    assert!(
        titles.iter().any(|t| t.starts_with("burn_seventy (")),
        "{titles:#?}"
    );
    assert!(!here.path("perf.data").exists(), "left behind by\n{run}");
    let stacks = run.err().matches("reach their root").count();
    assert_eq!(stacks, 1, "told once in\n{run}");
    // The command is too short for a sample, which is not its failure.
    here.rprof("flamegraph -F 1 -o x.svg -- true")
        .exits(0)
        .says("nothing to draw");
    // The requested SVG exists, and says so.
    well_formed(&svg(&here, "x.svg"));
    assert!(svg(&here, "x.svg").contains("no sample was taken"));
    here.rprof("flamegraph -o y.svg -- no-such-command-of-this-name")
        .exits(127);
    assert!(!here.path("y.svg").exists());
}

#[test]
fn flamegraph_is_deterministic() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c("shares.c");
    here.record("-F 999 -g", &program, "0.1");
    let first = here.rprof("flamegraph -o -").ok();
    assert_eq!(first.out(), here.rprof("flamegraph -o -").ok().out());
    let title: String = program.display().to_string().chars().take(100).collect();
    first.prints(&format!(">{title}"));
}

fn top(svg: &str, name: &str) -> u32 {
    let frame = svg.split(&format!("<title>{name} (")).nth(1);
    let frame = frame.unwrap_or_else(|| panic!("{name} is not in {svg}"));
    let y = frame
        .split(" y=\"")
        .nth(1)
        .and_then(|y| y.split('"').next());
    y.expect("a rect").parse().expect("a number")
}

#[test]
fn flamegraph_opens_on_the_root() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    for (options, is_inverted) in [
        ("", true),
        ("--no-inverted", false),
        ("--no-inverted --inverted", true),
        ("--inverted --no-inverted", false),
    ] {
        let svg = here.rprof("flamegraph -q -o -").words(options).ok().out();
        well_formed(&svg);
        let (all, main) = (top(&svg, "all"), top(&svg, "main"));
        assert_eq!(all < main, is_inverted, "{all} {main} with {options:?}");
        assert!(!is_inverted || all < 120, "{all}");
    }
}

#[test]
fn flamegraph_tells_kernel_from_user_frames() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    here.record("-F 999 -g", &c("syscalls.c"), "0.3");
    let svg = here.rprof("flamegraph -q -o -").ok().out();
    let legend = svg.split("id=\"legend\"").nth(1).expect("a legend");
    let legend = legend.split("</text>").next().expect("its end");
    assert!(
        legend.contains("user") && legend.contains("kernel"),
        "{legend}"
    );
    let subtitle = svg.split("id=\"subtitle\"").nth(1).expect("a subtitle");
    let subtitle = subtitle.split("</text>").next().expect("its end");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let on_host = format!(", on {}, ", host.trim());
    for part in [" samples of ", &on_host, "% of stacks complete"] {
        assert!(subtitle.contains(part), "{part} is not in {subtitle}");
    }
}

#[test]
fn flamegraph_of_what_was_attached_to_is_called_after_it() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut program = here.command(c("endless.c")).start();
    program.line();
    let pid = program.pid().as_raw_nonzero();
    here.rprof(&format!("record -q -g -p {pid} -d 0.2")).ok();
    let svg = here.rprof("flamegraph -q -o -").ok();
    svg.prints(&format!(">endless (pid {pid})<"));
    let direct = here
        .rprof(&format!("flamegraph -q -p {pid} -d 0.2 -o -"))
        .ok();
    direct.prints(&format!(">endless (pid {pid})<"));
}

#[test]
fn flamegraph_takes_title_colours_and_direction() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    for options in [
        "--inverted",
        "--reverse",
        "--colors rust",
        "--colors kind",
        "--merge-threads sh* --no-merge-threads",
        "--merge-threads sh*",
        "--width 777",
        "--weight samples",
    ] {
        well_formed(&here.rprof("flamegraph -q -o -").words(options).ok().out());
    }
    here.rprof("flamegraph -q -o - --width 777")
        .ok()
        .prints("777");
    here.rprof("flamegraph -o x.svg --comm nobody")
        .exits(1)
        .says("no sample")
        .says("the filters leave");
    assert!(
        !here.path("x.svg").exists(),
        "no file where nothing could be drawn"
    );
    here.rprof("flamegraph -o no/such/x.svg")
        .exits(1)
        .says("no/such");
}

#[test]
fn options_may_stand_behind_the_file_to_draw() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    let drawn = |words: &str| here.rprof("flamegraph").words(words).ok().out();
    let expected = drawn("-q --no-inverted --title made -o - perf.data");
    for words in [
        "perf.data -q --no-inverted --title made -o -",
        "-q perf.data --no-inverted -o - --title made",
    ] {
        assert_eq!(drawn(words), expected, "{words}");
    }
    let run = here
        .rprof("flamegraph -q -F 999 -o x.svg sh -c")
        .arg("exit 3")
        .exits(3);
    assert!(here.path("x.svg").exists(), "{run}");
    here.rprof("flamegraph perf.data --no-such-option")
        .exits(2)
        .says("--no-such-option");
}

#[test]
fn a_flamegraph_that_cannot_be_written_is_named() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    here.rprof("flamegraph -o /dev/full")
        .exits(1)
        .says("/dev/full");
}

#[test]
fn flamegraph_of_several_events_says_which_is_drawn() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-g -e cpu-clock,page-faults", &c("shares.c"), "0.1");
    let first = here.rprof("flamegraph -o -").ok();
    first
        .says("only samples of cpu-clock")
        .prints("burn_seventy");
    let other = here.rprof("flamegraph --event page-faults -o -").ok();
    assert!(!other.err().contains("only samples"), "{other}");
    well_formed(&other.out());
}
