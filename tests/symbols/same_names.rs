//! Different functions with one name, if names have no path.

use std::path::Path;

use crate::support::{Here, Language, Report, Row, c, generated, needs, rust};

/// Returns rows with or without a location suffix.
fn rows(program: &Path, name: &str) -> Vec<Row> {
    let here = Here::new();
    here.record("-F 999 -e cpu-clock:u", program, "");
    let report = Report::parse(&here.rprof("report --format json").ok());
    let whole = report.only().weight;
    let mut report = report;
    let rows = report.events.remove(0).rows.into_iter();
    rows.filter(|row| row.symbol == name || row.symbol.starts_with(&format!("{name} (")))
        // A few samples may be in a line without a function.
        .filter(|row| row.own * 50 > whole)
        .collect()
}

fn assert_places(rows: &[Row], name: &str, places: &[&str]) {
    let mut shown: Vec<&str> = rows.iter().map(|row| row.symbol.as_str()).collect();
    shown.sort_unstable();
    let mut expected: Vec<String> = places
        .iter()
        .map(|place| format!("{name} ({place})"))
        .collect();
    expected.sort_unstable();
    assert_eq!(shown, expected);
}

const MODULES: &str = "
mod parser {
    #[inline(always)]
    pub fn step(x: u64) -> u64 {
        let mut y = x;
        for i in 0..20u64 { y = (y ^ i).rotate_left(7).wrapping_mul(0x9E3779B97F4A7C15); }
        y
    }
}
mod render {
    #[inline(always)]
    pub fn step(x: u64) -> u64 {
        let mut y = x;
        for i in 0..40u64 { y = (y ^ i).rotate_left(9).wrapping_mul(0xC2B2AE3D27D4EB4F); }
        y
    }
}
#[inline(never)]
fn parse_all(n: u64) -> u64 { (0..n).fold(1, |a, i| parser::step(a ^ i)) }
#[inline(never)]
fn render_all(n: u64) -> u64 { (0..n).fold(1, |a, i| render::step(a ^ i)) }
fn main() { println!(\"{}\", parse_all(8_000_000) ^ render_all(4_000_000)); }
";

#[test]
fn inlined_functions_of_two_modules_have_two_rows_with_line_tables() {
    needs!(PerfEvents);
    let flags = ["-Copt-level=3", "-Cdebuginfo=line-tables-only"];
    let program = generated("modules", MODULES, Language::Rust, &flags);
    let shown = rows(&program, "step");
    assert_eq!(shown.len(), 2, "{shown:#?}");
    for row in &shown {
        let is_line = |line: u32| row.symbol == format!("step (modules.rs:{line})");
        assert!((3..8).chain(12..17).any(is_line), "{row:?}");
    }
    let flags = ["-Copt-level=3", "-Cdebuginfo=1"];
    let program = generated("modules", MODULES, Language::Rust, &flags);
    for name in ["modules::parser::step", "modules::render::step"] {
        assert_eq!(rows(&program, name).len(), 1, "{name}");
    }
}

const NAMESPACES: &str = "
#include <cstdint>
#define INLINE static inline __attribute__((always_inline))
namespace parser {
INLINE uint64_t step(uint64_t x) {
    for (int i = 0; i < 20; i++) x = (x ^ i) * 0x9E3779B97F4A7C15ull;
    return x;
}
}
namespace { namespace render {
INLINE uint64_t step(uint64_t x) {
    for (int i = 0; i < 40; i++) x = (x ^ i) * 0xC2B2AE3D27D4EB4Full;
    return x;
}
} }
int main() {
    uint64_t sum = 1;
    for (int i = 0; i < 8000000; i++) sum = parser::step(sum ^ i);
    for (int i = 0; i < 4000000; i++) sum ^= render::step(sum + i);
    return sum == 42;
}
";

#[test]
fn inlined_static_functions_of_two_namespaces_have_two_rows() {
    needs!(PerfEvents, Cxx);
    for debug in ["-g", "-g1"] {
        let program = generated("namespaces", NAMESPACES, Language::Cxx, &["-O2", debug]);
        let shown = rows(&program, "step");
        assert_places(&shown, "step", &["namespaces.cpp:5", "namespaces.cpp:11"]);
    }
}

/// The files share only a header.
#[test]
fn static_functions_of_two_files_have_two_rows() {
    needs!(PerfEvents);
    for attribute in ["noinline", "always_inline"] {
        let here = Here::new();
        for (file, rounds) in [("left", 20), ("right", 40)] {
            let text = format!(
                "#include <stdint.h>\n\
                 static inline __attribute__(({attribute})) uint64_t step(uint64_t x) {{\n\
                 for (int i = 0; i < {rounds}; i++) x = (x ^ i) * 0x9E3779B97F4A7C15ull;\n\
                 return x;\n}}\n\
                 uint64_t {file}(uint64_t x) {{\n\
                 for (int i = 0; i < 5000000; i++) x ^= step(x + i);\nreturn x;\n}}\n"
            );
            std::fs::write(here.path(format!("{file}.c")), text).expect("written");
        }
        let main = "unsigned long left(unsigned long), right(unsigned long);\n\
                    int main(void) { return left(right(1)) == 42; }\n";
        std::fs::write(here.path("main.c"), main).expect("written");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        here.command(&compiler)
            .words("-O2 -g -o program main.c left.c right.c")
            .ok();
        let shown = rows(&here.path("program"), "step");
        assert_places(&shown, "step", &["left.c:2", "right.c:2"]);
    }
}

#[test]
fn functions_of_one_name_each_have_no_place() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.2");
    let own = here.rprof("report").ok().out();
    assert!(!own.contains(".c:") && !own.contains(".h:"), "{own}");
    let flags = ["-Cdebuginfo=1"];
    here.record("-F 999 -g -e cpu-clock:u", &rust("names.rs", &flags), "0.1");
    let own = here
        .rprof("report --symbol names::* --symbol <names*")
        .ok()
        .out();
    assert!(!own.contains(".rs:"), "{own}");
}

#[test]
fn a_name_without_its_place_chooses_all_functions_of_that_name() {
    needs!(PerfEvents);
    let here = Here::new();
    let flags = ["-Copt-level=3", "-Cdebuginfo=line-tables-only"];
    let program = generated("modules", MODULES, Language::Rust, &flags);
    here.record("-F 999 -e cpu-clock:u", &program, "");
    let report = here.rprof("report --format json --symbol step").ok();
    let report = Report::parse(&report);
    let chosen = report.only();
    let of_the_name = chosen
        .rows
        .iter()
        .filter(|row| row.symbol.starts_with("step ("));
    let totals: Vec<u64> = of_the_name.map(|row| row.total).collect();
    assert_eq!(totals.len(), 2, "{:?}", chosen.rows);
    assert_eq!(
        totals.iter().sum::<u64>(),
        chosen.weight,
        "{:?}",
        chosen.rows
    );
    // Lines change with every edit.
    let diff = here.rprof("diff --all perf.data perf.data").ok().out();
    assert!(diff.contains("step") && !diff.contains("step ("), "{diff}");
}

const OVERLOADS: &str = "
#include <cstdint>
static volatile uint64_t sink;
struct Work {
    __attribute__((noinline)) void operator()(int n) const { spin(uint64_t(n)); sink = 1; }
    __attribute__((noinline)) void operator()(long n) const { spin(uint64_t(n)); sink = 2; }
    static __attribute__((always_inline)) void spin(uint64_t n) {
        uint64_t x = 1;
        for (uint64_t i = 0; i < n; i++) x = x * 6364136223846793005u + i;
        sink = x;
    }
};
int main() {
    Work work;
    for (int i = 0; i < 150; i++) { work(2000000); work(1000000L); }
}
";

const CLOSURES: &str = "
use std::hint::black_box;
#[inline(never)]
fn repeat<F: Fn(u64) -> u64>(f: F, n: u64) -> u64 {
    (0..n).fold(1, |x, i| black_box(f(x ^ i)))
}
fn main() {
    let first = repeat(|x| x.wrapping_mul(3), 100_000_000);
    let second = repeat(|x| x.rotate_left(7), 100_000_000);
    println!(\"{}\", first ^ second);
}
";

#[test]
fn overloads_and_instances_are_rows_of_their_own() {
    needs!(PerfEvents, Cxx);
    let here = Here::new();
    let rows = |begin: &str| {
        let report = here.report("");
        let rows = report.only().rows.iter();
        let found = rows.filter(|row| row.symbol.starts_with(begin) && row.self_samples > 0);
        found.map(|row| row.symbol.clone()).collect::<Vec<_>>()
    };
    for flags in [&["-O1"][..], &["-O1", "-g"]] {
        let program = generated("overloads", OVERLOADS, Language::Cxx, flags);
        here.record("-F 999 -e cpu-clock:u", &program, "");
        let mut overloads = rows("Work::operator()");
        overloads.sort();
        let expected = [
            "Work::operator() (int) const",
            "Work::operator() (long) const",
        ];
        assert_eq!(overloads, expected, "{flags:?}");
        here.rprof("report --symbol Work::operator()").ok();
    }
    let program = generated("closures", CLOSURES, Language::Rust, &["-O"]);
    here.record("-F 999 -e cpu-clock:u", &program, "");
    let instances = rows("closures::repeat");
    assert_eq!(instances.len(), 2, "{instances:?}");
}
