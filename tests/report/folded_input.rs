//! Folded stacks as input of `report`, `flamegraph` and `collapse`.

use crate::support::{Here, Report, cxx, needs, well_formed};

/// Spaces, parameters, brackets and colons; a duplicate stack; a recursion; `main` as a leaf;
/// unsorted.
const TEXT: &str = "\
# made by hand
main;work;operator new(unsigned long) 5
main 2

main;work;work;[libc.so.6] 4
main;f(int) const 1
main;work;operator new(unsigned long) 3
java;Ljava/lang/Thread.run;interpreter_[j] 6
alone 1
";

fn with_text(text: &str) -> Here {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), text).unwrap();
    here
}

fn titles_by_inferno(text: &str) -> Vec<String> {
    let mut options = inferno::flamegraph::Options::default();
    options.min_width = 0.0;
    let mut svg = Vec::new();
    inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
    let mut titles = well_formed(&String::from_utf8(svg).unwrap());
    titles.sort();
    titles
}

#[test]
fn folded_text_is_drawn_as_inferno_draws_it() {
    for text in [TEXT, "a;b 10 5\na;c 3\n;;x 2\na;b 1\n"] {
        let here = with_text(text);
        let run = here
            .rprof("flamegraph -i x.folded -q --min-width 0 -o -")
            .ok();
        let mut titles = well_formed(&run.out());
        for title in &mut titles {
            *title = title.replace("(1 sample,", "(1 samples,");
        }
        titles.sort();
        let expected = titles_by_inferno(text);
        assert!(expected.len() > 4, "{expected:?}");
        assert_eq!(titles, expected);
    }
}

#[test]
fn folded_text_is_collapsed_to_the_same_stacks() {
    let here = with_text(TEXT);
    let run = here.rprof("collapse -i x.folded").ok();
    run.says_nothing();
    assert_eq!(
        run.out(),
        "alone 1\n\
         java;Ljava/lang/Thread.run;interpreter_[j] 6\n\
         main 2\n\
         main;f(int) const 1\n\
         main;work;operator new(unsigned long) 8\n\
         main;work;work;[libc.so.6] 4\n"
    );
    let again = here.rprof("collapse -i -").stdin(run.bytes()).ok();
    assert_eq!(again.out(), run.out());
    let piped = here.sh(&format!(
        "mkfifo pipe && cat x.folded > pipe & while ! [ -p pipe ]; do :; done; {} collapse -i pipe",
        env!("CARGO_BIN_EXE_rprof")
    ));
    assert_eq!(piped.ok().out(), run.out());
}

#[test]
fn collapsed_recordings_are_collapsed_to_themselves() {
    needs!(PerfEvents, Cxx);
    let here = Here::new();
    here.record("-F 999 -g", &cxx("names.cpp"), "0.05");
    let first = here.rprof("collapse").ok();
    assert!(!first.bytes().is_empty());
    let second = here.rprof("collapse -i -").stdin(first.bytes()).ok();
    assert_eq!(second.out(), first.out());
}

#[test]
fn report_of_folded_text_agrees_with_a_count_by_hand() {
    let here = with_text(TEXT);
    let report = here.report("-i x.folded");
    let event = report.only();
    assert_eq!(
        (&*event.name, event.samples, event.weight),
        ("samples", 22, 22)
    );
    let mut rows: Vec<_> = (event.rows.iter())
        .map(|row| (&*row.symbol, row.own, row.total))
        .collect();
    rows.sort();
    assert_eq!(
        rows,
        [
            ("Ljava/lang/Thread.run", 0, 6),
            ("[libc.so.6]", 4, 4),
            ("alone", 1, 1),
            ("f(int) const", 1, 1),
            ("interpreter_[j]", 6, 6),
            ("java", 0, 6),
            ("main", 2, 15),
            ("operator new(unsigned long)", 8, 8),
            ("work", 0, 12),
        ]
    );
    assert!(
        event
            .rows
            .iter()
            .all(|row| row.object.is_empty() && row.comm.is_empty())
    );
    // The stacks' quality is unknown.
    let quality = &report.quality;
    for part in ["stacks", "frames"] {
        assert_eq!(quality[part]["total"], 0, "{quality}");
    }
    let text = here.rprof("report -i x.folded").ok();
    text.prints("# event samples: 22 samples, 22 samples\n#\n");
    let csv = here.rprof("report -i x.folded --format csv").ok();
    csv.prints("samples,,,,9.0909,68.1818,2,15,2,main,,,\n");
}

#[test]
fn leaves_of_folded_text_are_chosen_by_symbol() {
    let here = with_text(TEXT);
    let run = here
        .rprof("collapse -i x.folded --symbol main --symbol alone")
        .ok();
    assert_eq!(run.out(), "alone 1\nmain 2\n");
    here.rprof("collapse -i x.folded --symbol nobody")
        .exits(1)
        .says("the filters leave no sample of x.folded: none passes --symbol nobody");
}

#[test]
fn flags_that_mean_nothing_for_folded_text_are_refused() {
    let here = with_text(TEXT);
    for flag in [
        "--comm main",
        "--pid 1",
        "--tid 1",
        "--cpu 0",
        "--time 0,1",
        "--dso libc.so.6",
        "--event cycles",
    ] {
        for command in ["report", "collapse", "flamegraph -o -"] {
            let run = here
                .rprof(command)
                .words("-i x.folded")
                .words(flag)
                .exits(2);
            let name = flag.split(' ').next().unwrap();
            run.says("does not work with x.folded").says(name);
            assert!(run.bytes().is_empty(), "{run}");
        }
    }
    for key in ["comm", "pid,symbol", "tid", "srcline", "dso"] {
        let run = here.rprof("report -i x.folded --sort").words(key).exits(2);
        run.says("--sort ").says(" does not work with");
    }
    here.rprof("report -i x.folded --sort symbol,dso").ok();
}

#[test]
fn folded_text_has_no_samples_and_no_header() {
    let here = with_text(TEXT);
    for command in ["script -i x.folded", "header -i x.folded"] {
        let run = here.rprof(command).exits(1);
        run.says("x.folded has folded stacks, without single samples or a header");
    }
}

#[test]
fn commands_that_are_named_as_readers_of_folded_text_read_it() {
    let here = with_text(TEXT);
    let told = here.rprof("header -i x.folded").exits(1).err();
    let (_, named) = told
        .split_once("this command needs a recording; ")
        .expect("readers");
    let words = named.split('`').skip(1).step_by(2);
    let readers: Vec<&str> = words
        .filter_map(|word| word.strip_prefix("rprof "))
        .collect();
    for known in [
        "report",
        "flamegraph",
        "html",
        "diff",
        "collapse",
        "export",
        "push",
    ] {
        assert!(readers.contains(&known), "{readers:?}");
    }
    for reader in readers {
        let line = match reader {
            "diff" => "diff x.folded x.folded".to_owned(),
            "push" => "push --to pyroscope http://localhost:1 --dry-run x.folded".to_owned(),
            "flamegraph" | "html" | "export" => format!("{reader} -o out x.folded"),
            _ => format!("{reader} x.folded"),
        };
        let line = match reader {
            "export" => format!("{line} --format pprof"),
            _ => line,
        };
        here.rprof(&line).ok();
    }
    here.rprof("annotate x.folded")
        .exits(1)
        .says("this command needs a recording");
}

#[test]
fn wrong_lines_are_told_and_the_others_kept() {
    let here = with_text("main;a 1\nno count\nmain;b 2\nmain;c x\n");
    let run = here.rprof("collapse -i x.folded").ok();
    assert_eq!(run.out(), "main;a 1\nmain;b 2\n");
    run.says("2 lines (the first is line 2) of x.folded skipped");
    let report = Report::parse(&here.rprof("report -i x.folded --format json").ok());
    assert_eq!(report.quality["warnings"].as_array().unwrap().len(), 1);
    let run = with_text("nothing of the kind\n")
        .rprof("report -i x.folded")
        .exits(1);
    run.says("x.folded has an unknown format: it is neither a perf.data file")
        .says("nor folded stacks");
    let run = Here::new()
        .rprof("report -i -")
        .stdin(b"main;work\n")
        .exits(1);
    run.says("standard input has an unknown format: it is neither a perf.data file")
        .says("nor folded stacks");
}
