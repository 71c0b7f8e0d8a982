//! JavaScript functions of Node.js without flags, in a program with known callers.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Folded, Here, check, folded, measured, needs};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/runtimes/edges.js"
);

/// Frame of a function that could not be read in time.
const UNNAMED: &str = "[JavaScript function unnamed]";

/// The event loop or a promise calls them.
const ROOTS: [&str; 3] = ["main", "later", "onTimer"];

/// Legal callers by function.
type Callers = BTreeMap<String, BTreeSet<String>>;

fn callers(here: &Here) -> Callers {
    let json = here.command("node").arg(PROGRAM).arg("--edges").ok().out();
    serde_json::from_str(&json).expect("JSON")
}

/// Adds callers of callers, which optimized code may contain.
fn with_inlining(mut callers: Callers) -> Callers {
    loop {
        let before = callers.clone();
        for above in callers.values_mut() {
            let further = above
                .iter()
                .filter_map(|caller| before.get(caller))
                .flatten();
            let further: Vec<String> = further.cloned().collect();
            above.extend(further);
        }
        if callers == before {
            return callers;
        }
    }
}

/// Returns functions from the root on, with `None` for unnamed ones and other files.
fn functions(stack: &str) -> Vec<Option<&str>> {
    let frames = stack
        .split(';')
        .filter_map(|frame| match frame.strip_prefix("JS:") {
            Some(function) => {
                let (name, place) = function.rsplit_once(' ')?;
                let is_own = place.rsplit(':').nth(2)?.ends_with("edges.js");
                Some(Some(name).filter(|_| is_own))
            }
            None => (frame == UNNAMED).then_some(None),
        });
    frames.collect()
}

fn check_edges(stacks: &Folded, callers: &Callers) -> Result<(), String> {
    let (mut edges, mut named, mut unnamed, mut all, mut cut) = (0, 0, 0, 0, 0);
    for (stack, samples) in stacks {
        let functions = functions(stack);
        all += samples;
        // The thread and a frame without its caller, such as a handler of a bytecode.
        cut += samples * u64::from(stack.split(';').count() <= 2);
        unnamed += samples * stack.split(';').filter(|frame| *frame == UNNAMED).count() as u64;
        named += samples * functions.iter().flatten().count() as u64;
        for pair in functions.windows(2) {
            let [caller, Some(callee)] = *pair else {
                continue;
            };
            let is_root = ROOTS.contains(&callee) || callee == "(anonymous)";
            let is_legal = match caller {
                None => true,
                Some(caller) => callers
                    .get(callee)
                    .is_some_and(|legal| legal.contains(caller)),
            };
            edges += samples;
            assert!(
                is_legal || is_root,
                "{caller:?} never calls {callee}: {stack}"
            );
        }
    }
    println!("{edges} edges, {named} named functions, {unnamed} unnamed, 0 impossible");
    check(edges > 1000, || format!("{edges} edges"))?;
    check(cut * 20 <= all, || format!("{cut} of {all} stacks are cut"))?;
    check(named * 100 >= (named + unnamed) * 95, || {
        format!("{unnamed} functions unnamed, {named} named")
    })
}

fn check_mode(options: &str, callers: impl Fn(Callers) -> Callers) {
    needs!(PerfEvents, X86_64, Node);
    measured(|| {
        let here = Here::new();
        let record = here
            .rprof("record -q -e cpu-clock -F 999 -- node")
            .words(options);
        record.arg(PROGRAM).arg("2").ok();
        let stacks = folded(
            &here
                .rprof("collapse --no-by-language --weight samples")
                .ok(),
        );
        check_edges(&stacks, &callers(self::callers(&here)))
    });
}

#[test]
fn interpreted_functions_have_their_callers() {
    check_mode("--jitless", |callers| callers);
}

#[test]
fn baseline_code_has_its_callers() {
    check_mode("--no-opt", |callers| callers);
}

#[test]
fn optimized_code_has_its_callers() {
    check_mode("", with_inlining);
}

#[test]
fn names_have_the_line_and_column_that_v8_reports() {
    needs!(PerfEvents, X86_64, Node);
    measured(|| {
        let here = Here::new();
        let record = "record -q -e cpu-clock -F 999 -- node --cpu-prof --cpu-prof-dir=.";
        here.rprof(record).arg(PROGRAM).arg("2").ok();
        let profile = std::fs::read_dir(here.path(""))
            .expect("a folder")
            .flatten();
        let profile = profile.map(|entry| entry.path());
        let mut profiles =
            profile.filter(|path| path.extension().is_some_and(|e| e == "cpuprofile"));
        let profile = std::fs::read(profiles.next().expect("a profile")).expect("readable");
        let profile: serde_json::Value = serde_json::from_slice(&profile).expect("JSON");
        let nodes = profile["nodes"].as_array().expect("nodes").iter();
        let known: BTreeSet<String> = nodes
            .map(|node| &node["callFrame"])
            .filter(|frame| {
                frame["url"]
                    .as_str()
                    .is_some_and(|url| url.ends_with("edges.js"))
            })
            .map(|frame| {
                let position = |key: &str| frame[key].as_u64().unwrap_or(0) + 1;
                let name = match frame["functionName"].as_str().unwrap_or_default() {
                    "" => "(anonymous)",
                    name => name.rsplit(' ').next().unwrap_or(name),
                };
                format!(
                    "{name} {}:{}",
                    position("lineNumber"),
                    position("columnNumber")
                )
            })
            .collect();
        let stacks = folded(
            &here
                .rprof("collapse --no-by-language --weight samples")
                .ok(),
        );
        let mut seen = BTreeSet::new();
        for frame in stacks.keys().flat_map(|stack| stack.split(';')) {
            let function = frame
                .strip_prefix("JS:")
                .and_then(|name| name.rsplit_once(' '));
            if let Some((name, place)) = function
                && let Some((_, position)) = place.split_once("edges.js:")
            {
                let name = name.rsplit(' ').next().unwrap_or(name);
                seen.insert(format!("{name} {position}"));
            }
        }
        let common = seen.intersection(&known).count();
        check(common >= 12, || format!("{seen:?} beside {known:?}"))?;
        // V8's profiler may miss a function, but not move it.
        let name_of = |function: &String| function.split(' ').next().map(str::to_owned);
        let names: BTreeSet<_> = known.iter().map(name_of).collect();
        let moved: Vec<&String> = (seen.difference(&known))
            .filter(|function| names.contains(&name_of(function)))
            .filter(|function| !function.starts_with("(anonymous)"))
            .collect();
        check(moved.is_empty(), || format!("{moved:?} beside {known:?}"))
    });
}

/// V8 maps its builtins again near its JIT code, and copies them if its text is on huge pages.
#[test]
fn copied_builtins_have_the_names_of_the_original() {
    needs!(PerfEvents, X86_64, Node);
    measured(|| {
        let here = Here::new();
        let record = "record -q -e cpu-clock -F 999 -- node --use-largepages=on --no-opt";
        here.rprof(record).arg(PROGRAM).arg("2").ok();
        let stacks = folded(
            &here
                .rprof("collapse --no-by-language --weight samples")
                .ok(),
        );
        // Only baseline code calls these, and only in the copy.
        let is_copied =
            |frame: &str| frame.starts_with("Builtins_") && frame.ends_with("_Baseline");
        let copied = stacks
            .iter()
            .filter(|(stack, _)| stack.split(';').any(is_copied));
        let copied: u64 = copied.map(|(_, samples)| samples).sum();
        let all: u64 = stacks.values().sum();
        check(all > 500 && copied * 20 > all, || {
            format!("{copied} of {all} stacks")
        })?;
        check_edges(&stacks, &callers(&here))
    });
}

/// `tsx`, `ts-node` and test runners compile in memory, and leave a source map in the script. This
/// one, `{"version":3,"sources":["hot.ts"],"mappings":"AAKA"}`, says that all of the first line was
/// line 6.
const COMPILED: &str = "function hotLeaf(n){let s=0;for(let i=0;i<n;i++)s=(s*31+i)%1000003;return s}\
    const end=Date.now()+1500;while(Date.now()<end)hotLeaf(20000)
//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbImhvdC50cyJdLCJtYXBwaW5ncyI6IkFBS0EifQ==
";

#[test]
fn functions_have_their_place_before_a_compiler() {
    needs!(PerfEvents, X86_64, Node);
    measured(|| {
        let here = Here::new();
        std::fs::write(here.path("bundle.js"), COMPILED).expect("written");
        here.rprof("record -q -e cpu-clock -F 999 -- node bundle.js")
            .ok();
        let stacks = folded(
            &here
                .rprof("collapse --no-by-language --weight samples")
                .ok(),
        );
        let samples = |of: fn(&str) -> bool| -> u64 {
            let hot = stacks.iter().filter(|(stack, _)| stack.split(';').any(of));
            hot.map(|(_, samples)| samples).sum()
        };
        let all = samples(|frame| frame.starts_with("JS:hotLeaf "));
        let right =
            samples(|frame| frame.starts_with("JS:hotLeaf ") && frame.ends_with("/hot.ts:6:1"));
        check(all > 100 && right == all, || {
            format!("{right} of {all}: {stacks:?}")
        })
    });
}
