//! Generated programs with known true stacks.
//!
//! Every function `n_I` has one caller, so the innermost name determines the whole stack. The
//! program repeatedly calls down to a random function, works there for a moment, and returns. The
//! functions have all kinds of frames: arrays, dynamic size, over-alignment, many saved registers,
//! variable arguments, destructors.

use std::fmt::Write;

use rprof_testing::Random;

pub(crate) struct CallTree {
    /// The first function, called by `main`, has itself as an entry.
    parents: Vec<usize>,
    children: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cxx,
    Rust,
}

impl CallTree {
    /// Generates the tree, always the same.
    pub(crate) fn new(functions: usize, depth: usize) -> CallTree {
        let mut random = Random::new(0x9e37_79b9);
        let (mut parents, mut depths) = (vec![0], vec![1]);
        let mut children = vec![Vec::new()];
        while parents.len() < functions {
            let last = parents.len() - 1;
            let mut parent = if random.below(8) > 0 {
                last
            } else {
                random.index(last + 1)
            };
            while depths[parent] >= depth {
                parent = random.index(last + 1);
            }
            children[parent].push(parents.len());
            children.push(Vec::new());
            depths.push(depths[parent] + 1);
            parents.push(parent);
        }
        CallTree { parents, children }
    }

    /// Checks the functions of a stack, outermost first. Others may precede and follow.
    ///
    /// Returns whether the tree's part is right; `None` without one.
    pub(crate) fn is_right<'a>(&self, stack: impl Iterator<Item = &'a str>) -> Option<bool> {
        let ours: Vec<Option<usize>> = stack.map(number).collect();
        let first = ours.iter().position(Option::is_some)?;
        let last = ours.iter().rposition(Option::is_some)?;
        let mut expected = ours[last];
        for seen in ours[first..=last].iter().rev() {
            if *seen != expected || seen.is_none() {
                return Some(false);
            }
            expected = expected.filter(|n| *n != 0).map(|n| self.parents[n]);
        }
        Some(expected.is_none())
    }

    /// Two arguments: seconds to run, and iterations of a short loop in each place.
    pub(crate) fn source(&self, language: Language) -> String {
        match language {
            Language::C | Language::Cxx => self.c_source(language == Language::Cxx),
            Language::Rust => self.rust_source(),
        }
    }

    fn list(numbers: impl Iterator<Item = usize>) -> String {
        numbers.map(|n| format!("{n},")).collect()
    }

    /// Returns the index among the caller's callees, from 1.
    fn place(&self, function: usize) -> usize {
        let siblings = &self.children[self.parents[function]];
        siblings
            .iter()
            .position(|c| *c == function)
            .map_or(0, |at| at + 1)
    }

    fn c_source(&self, cxx: bool) -> String {
        let n = self.parents.len();
        let mut out = String::from(C_HEAD);
        let parents = Self::list(self.parents.iter().copied());
        let places = Self::list((0..n).map(|f| self.place(f)));
        writeln!(
            out,
            "static const int parents[] = {{{parents}}}, places[] = {{{places}}};"
        )
        .unwrap();
        writeln!(out, "static int route[{n}]; enum {{ FUNCTIONS = {n} }};").unwrap();
        for f in 0..n {
            match kind(f) {
                Kind::Variadic => writeln!(out, "OWN u64 n_{f}(int count, ...);"),
                _ => writeln!(out, "OWN u64 n_{f}(u64 x);"),
            }
            .unwrap();
        }
        for f in 0..n {
            self.c_function(f, cxx, &mut out);
        }
        out.push_str(C_MAIN);
        out
    }

    fn c_function(&self, f: usize, cxx: bool, out: &mut String) {
        let (head, before, after) = match kind(f) {
            Kind::Plain => (format!("OWN u64 n_{f}(u64 x) {{"), String::new(), String::new()),
            Kind::Array => (
                format!("OWN u64 n_{f}(u64 x) {{"),
                format!("volatile u64 a[{}]; a[x % 3] = x;", 4 + f % 61),
                "r += a[x % 3];".into(),
            ),
            Kind::Sized => (
                format!("OWN u64 n_{f}(u64 x) {{"),
                "volatile char *a = (volatile char *)__builtin_alloca(16 + (x & 255)); a[x & 7] = 1;".into(),
                "r += a[x & 7];".into(),
            ),
            Kind::Aligned => (
                format!("OWN u64 n_{f}(u64 x) {{"),
                "volatile u64 a[8] __attribute__((aligned(64))); a[x % 8] = x;".into(),
                "r += a[x % 8];".into(),
            ),
            Kind::Saved => (
                format!("OWN u64 n_{f}(u64 x) {{"),
                "u64 a = x ^ sink, b = x * 3, c = x + 5, d = x * x, e = x - 9;".into(),
                "r += a * b + c * d + e;".into(),
            ),
            Kind::Variadic => (
                format!("OWN u64 n_{f}(int count, ...) {{"),
                "va_list list; va_start(list, count); u64 x = va_arg(list, u64); va_end(list);".into(),
                String::new(),
            ),
            Kind::Cleanup if cxx => (
                format!("OWN u64 n_{f}(u64 x) {{"),
                "Cleanup cleanup(x); try {".into(),
                "if ((r & 0xfff) == 1) throw r; } catch (u64 thrown) { sink += thrown; return thrown; }\n    u64 r = cleanup.x;".into(),
            ),
            Kind::Cleanup => (format!("OWN u64 n_{f}(u64 x) {{"), "double y = x * 0.5;".into(), "r += (u64)y;".into()),
        };
        writeln!(
            out,
            "{head}\n    {before}\n    u64 r = x * 0x9e3779b97f4a7c15ull + {f};"
        )
        .unwrap();
        writeln!(
            out,
            "    switch (route[{f}]) {{\n    case 0: r = stay(r); break;"
        )
        .unwrap();
        for (at, child) in self.children[f].iter().enumerate() {
            let call = match kind(*child) {
                Kind::Variadic => format!("n_{child}(1, r)"),
                _ => format!("n_{child}(r)"),
            };
            writeln!(out, "    case {}: r += {call}; break;", at + 1).unwrap();
        }
        writeln!(
            out,
            "    }}\n    {after}\n    sink += r;\n    return r;\n}}"
        )
        .unwrap();
    }

    fn rust_source(&self) -> String {
        let n = self.parents.len();
        let mut out = String::from(RUST_HEAD);
        let parents = Self::list(self.parents.iter().copied());
        let places = Self::list((0..n).map(|f| self.place(f)));
        writeln!(out, "static PARENTS: [usize; {n}] = [{parents}];").unwrap();
        writeln!(out, "static PLACES: [usize; {n}] = [{places}];").unwrap();
        for f in 0..n {
            let (before, after) = match kind(f) {
                Kind::Plain | Kind::Variadic => ("", ""),
                Kind::Array | Kind::Aligned => (
                    "let a = std::hint::black_box([x; 33]);",
                    "r ^= a[(x % 33) as usize];",
                ),
                Kind::Sized => ("let a = vec![x; 3];", "r ^= a[(x % 3) as usize];"),
                Kind::Saved => (
                    "let (a, b, c) = (x ^ 1, x.wrapping_mul(x), x >> 3);",
                    "r ^= a.wrapping_mul(b) ^ c;",
                ),
                Kind::Cleanup => ("let a = Box::new(x); let a = Cleanup(a);", "r ^= *a.0;"),
            };
            writeln!(out, "#[inline(never)] #[unsafe(no_mangle)] fn n_{f}(route: &mut [usize], x: u64) -> u64 {{").unwrap();
            writeln!(
                out,
                "    {before}\n    let mut r = x.wrapping_mul(0x9e3779b97f4a7c15) + {f};"
            )
            .unwrap();
            writeln!(
                out,
                "    match route[{f}] {{\n        0 => r = stay(r, route),"
            )
            .unwrap();
            for (at, child) in self.children[f].iter().enumerate() {
                writeln!(out, "        {} => r ^= n_{child}(route, r),", at + 1).unwrap();
            }
            writeln!(
                out,
                "        _ => {{}}\n    }}\n    {after}\n    std::hint::black_box(r)\n}}"
            )
            .unwrap();
        }
        out.push_str(RUST_MAIN);
        out
    }
}

fn number(name: &str) -> Option<usize> {
    // C++ names have parameters, or a compiler suffix.
    let digits = name.strip_prefix("n_")?;
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Array,
    Sized,
    Aligned,
    Saved,
    Variadic,
    Cleanup,
}

fn kind(function: usize) -> Kind {
    match function * 7919 % 11 {
        // `main` calls the first one, without variable arguments.
        _ if function == 0 => Kind::Plain,
        0 | 1 => Kind::Array,
        2 => Kind::Sized,
        3 => Kind::Aligned,
        4 | 5 => Kind::Saved,
        6 => Kind::Variadic,
        7 | 8 => Kind::Cleanup,
        _ => Kind::Plain,
    }
}

const C_HEAD: &str = r"#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
typedef unsigned long long u64;
#ifdef __clang__
#define OWN static __attribute__((noinline))
#else
#define OWN static __attribute__((noinline, noclone))
#endif
static volatile u64 sink;
static u64 turns = 2000;
static inline __attribute__((always_inline)) u64 stay(u64 r) {
    for (u64 i = 0; i < turns; i++) r = r * 6364136223846793005ull + (r >> 29) + i;
    return r;
}
#ifdef __cplusplus
struct Cleanup { u64 x; explicit Cleanup(u64 x) : x(x) {} ~Cleanup() { sink += x; } };
#endif
";

const C_MAIN: &str = r"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int argc, char **argv) {
    double end = now() + (argc > 1 ? atof(argv[1]) : 1.0);
    u64 seed = 88172645463325252ull;
    if (argc > 2) turns = strtoull(argv[2], NULL, 10);
    while (now() < end) {
        seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
        int f = seed % FUNCTIONS;
        for (route[f] = 0; f; f = parents[f]) route[parents[f]] = places[f];
        sink += n_0(seed);
    }
    return 0;
}
";

const RUST_HEAD: &str = r"struct Cleanup(Box<u64>);
impl Drop for Cleanup { fn drop(&mut self) { std::hint::black_box(*self.0); } }
#[inline(always)]
fn stay(mut r: u64, route: &[usize]) -> u64 {
    for i in 0..route[route.len() - 1] as u64 {
        r = r.wrapping_mul(6364136223846793005).wrapping_add(r >> 29).wrapping_add(i);
    }
    r
}
";

const RUST_MAIN: &str = r#"
fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().map_or(1.0, |a| a.parse().expect("a number"));
    let turns: usize = args.next().map_or(2000, |a| a.parse().expect("a number"));
    let mut route = vec![0; PARENTS.len() + 1];
    *route.last_mut().expect("not empty") = turns;
    let start = std::time::Instant::now();
    let mut seed = 88172645463325252u64;
    while start.elapsed().as_secs_f64() < seconds {
        seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
        let mut f = (seed % PARENTS.len() as u64) as usize;
        route[f] = 0;
        while f != 0 { route[PARENTS[f]] = PLACES[f]; f = PARENTS[f]; }
        std::hint::black_box(n_0(&mut route, seed));
    }
}
"#;
