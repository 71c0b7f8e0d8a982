//! Interpreters whose functions rprof does not read: the report's advice works.

use crate::support::{Here, Report, Shell, check, measured, needs};

const PHP: &str = "<?php
function hot_leaf($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s += ($i * $i) % 7; } return $s; }
function outer_work($n) { return hot_leaf($n) + 1; }
$end = microtime(true) + 0.6;
while (microtime(true) < $end) { outer_work(10000); }
";

const RUBY: &str = "
def hot_leaf(n) s = 0; n.times { |i| s += (i * i) % 7 }; s end
finish = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + 0.4
hot_leaf(10_000) while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < finish
";

fn record(here: &Here, command: &str) -> Shell {
    let record = "record -q -g -F 499 -e cpu-clock:u --";
    here.rprof(record).words(command)
}

/// Returns the options of the advice `php OPTIONS …`.
fn advised(report: &str) -> Option<String> {
    let (_, rest) = report.split_once("`php ")?;
    let (options, _) = rest.split_once(" …`")?;
    let words = options.split_whitespace().filter(|word| *word != "#");
    Some(words.collect::<Vec<_>>().join(" "))
}

#[test]
fn functions_of_php_have_names_with_the_options_that_the_report_advises() {
    needs!(PerfEvents, Tool("php"));
    let here = Here::new();
    std::fs::write(here.path("work.php"), PHP).expect("written");
    record(&here, "php -n work.php").ok();
    let report = here.rprof("report").ok();
    let said = report.out();
    assert!(said.contains("in execute_ex of"), "{said}");
    let options = advised(&said).unwrap_or_else(|| panic!("{said}"));
    measured(|| {
        record(&here, &format!("php {options} work.php")).ok();
        let report = Report::parse(&here.rprof("report -q --format json").ok());
        let rows = report.only().rows.iter();
        let own = rows.filter(|row| row.symbol.contains("hot_leaf"));
        let own: u64 = own.map(|row| row.own).sum();
        check(own * 10 > report.only().weight * 7, || {
            format!("{own} of {}", report.only().weight)
        })
    });
}

#[test]
fn methods_of_ruby_are_said_to_be_hidden() {
    needs!(PerfEvents, Tool("ruby"));
    let here = Here::new();
    std::fs::write(here.path("work.rb"), RUBY).expect("written");
    record(&here, "ruby work.rb").ok();
    let report = here.rprof("report").ok();
    report
        .prints("hides the functions that it runs")
        .prints("ruby --yjit");
}
