//! The stacks of the event that measures CPU time, with clean names.

use rprof_export::clean::{clean, shorten};
use rprof_export::names::{CleanName, CleanNames};
use rprof_export::rows::percent;
use rprof_profile::language::native::language_of;
use rprof_profile::pattern::matches_name;
use rprof_profile::waits::{is_of_waits, is_of_wall_clock, noun_of_time};
use rprof_profile::{
    AggregatedStack, FrameId, Function, FunctionId, Language, ObjectId, ObjectKind, Profile,
    WeightUnit,
};
use rustc_hash::FxHashSet;

/// Minimum number of samples for meaningful shares.
const MIN_SAMPLES: u64 = 30;

/// Characters of a name in a sentence.
pub(crate) const MAX_NAME: usize = 80;

/// Files of interpreters and virtual machines, wherever they are installed.
const INTERPRETERS: [&str; 23] = [
    "libpython*",
    "python",
    "python2*",
    "python3*",
    "libjvm.so",
    "libjli.so",
    "java",
    "node",
    "nodejs",
    "libnode.so*",
    "libruby*",
    "ruby",
    "ruby?.?",
    "libperl.so*",
    "perl",
    "perl5*",
    "libphp*",
    "php",
    "php?.?",
    "lua?.?",
    "luajit*",
    "guile",
    "beam*.smp",
];

/// An event of a profile.
pub(crate) struct Stacks<'p> {
    pub(crate) profile: &'p Profile,
    pub(crate) event: usize,
    /// Weight of all samples.
    pub(crate) whole: u64,
    /// Programs written in Go. Their functions have names that may be in other languages, too.
    go: FxHashSet<ObjectId>,
}

impl<'p> Stacks<'p> {
    /// Returns the event of CPU time, or the first other event that is no wait.
    pub(crate) fn of_cpu(profile: &'p Profile) -> Option<Stacks<'p>> {
        let events = profile.events.iter().enumerate();
        let mut events = events.filter(|(_, event)| {
            event.weight > 0 && !is_of_waits(&event.name) && !is_of_wall_clock(&event.name)
        });
        let event = events.next()?.0;
        let is_exact = profile.is_folded || profile.events[event].unit == WeightUnit::Bytes;
        let is_enough = is_exact || profile.events[event].samples >= MIN_SAMPLES;
        is_enough.then(|| Stacks::of(profile, event))
    }

    pub(crate) fn of(profile: &'p Profile, event: usize) -> Stacks<'p> {
        Stacks {
            profile,
            event,
            whole: profile.events[event].weight,
            go: go_programs(profile),
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &'p AggregatedStack> + '_ {
        self.numbered_entries().map(|(_, entry)| entry)
    }

    /// Returns the entries with their numbers in the profile.
    pub(crate) fn numbered_entries(
        &self,
    ) -> impl Iterator<Item = (usize, &'p AggregatedStack)> + '_ {
        let entries = self.profile.aggregated.iter().enumerate();
        entries.filter(|(_, entry)| entry.event == self.event)
    }

    pub(crate) fn frames(&self, entry: &AggregatedStack) -> Vec<FrameId> {
        self.profile.frames(entry.stack).collect()
    }

    pub(crate) fn share(&self, weight: u64) -> f64 {
        percent(weight, self.whole)
    }

    /// Returns a noun for the weights: `the CPU time`, `the page-faults`.
    pub(crate) fn noun(&self) -> String {
        let event = &self.profile.events[self.event];
        match &event.unit {
            WeightUnit::Nanoseconds => format!("the {}", clean(noun_of_time(&event.name))),
            WeightUnit::Bytes => "the memory".to_owned(),
            _ if self.profile.is_folded => "the samples".to_owned(),
            _ => format!("the {}", CleanNames::new(self.profile).event(self.event)),
        }
    }

    pub(crate) fn function_of(&self, frame: FrameId) -> FunctionId {
        self.profile.frame(frame).function
    }

    pub(crate) fn name(&self, id: FunctionId) -> String {
        let names = CleanNames::new(self.profile);
        match names.function(id) {
            Some(name) => shorten(&name, MAX_NAME).into_owned(),
            None => {
                let object = self.profile.function(id).object;
                format!("unnamed code of {}", &*names.object_base(object))
            }
        }
    }

    /// Returns the whole name, for commands; `None` if there is none.
    pub(crate) fn whole_name(&self, id: FunctionId) -> Option<String> {
        let name = CleanNames::new(self.profile).function(id);
        name.map(CleanName::into_owned)
    }

    /// Returns the innermost function that the user wrote, root first; none for gaps.
    pub(crate) fn user_function(&self, frames: &[FrameId]) -> Option<FunctionId> {
        let mut functions = frames.iter().rev().map(|frame| self.function_of(*frame));
        let found = functions.find(|id| !self.is_library(*id))?;
        (!self.is_gap(found) && !self.is_unknown(found)).then_some(found)
    }

    /// Returns true for code outside of all known objects.
    fn is_unknown(&self, id: FunctionId) -> bool {
        let function = self.profile.function(id);
        function.name.is_err() && &*self.profile.object(function.object).name == "[unknown]"
    }

    /// Returns true for frames that stand for unknown functions: `[Python callers unproven]`.
    pub(crate) fn is_gap(&self, id: FunctionId) -> bool {
        (self.profile.function(id).name.as_deref()).is_ok_and(|name| name.starts_with('['))
    }

    /// Returns true for code that people call and do not write: the kernel, shared libraries of the
    /// system, standard libraries, interpreters.
    pub(crate) fn is_library(&self, id: FunctionId) -> bool {
        let function = self.profile.function(id);
        let object = self.profile.object(function.object);
        let is_shared = || {
            let base = object.base_name();
            let is_system = object.name.starts_with("/usr/lib") || object.name.starts_with("/lib");
            is_system && (base.contains(".so") || base.starts_with("ld-"))
                || object.name.starts_with("[vdso")
                || INTERPRETERS.iter().any(|name| matches_name(name, base))
        };
        let is_standard = || match &function.name {
            Ok(name) if self.go.contains(&function.object) => is_standard_go(name),
            Ok(name) => is_standard(name),
            Err(_) => false,
        };
        // Extension modules of the interpreter.
        let is_extension = || object.name.contains("/lib-dynload/");
        if function.source.is_some() {
            // Modules that come with the interpreter.
            let is_installed = || {
                !["/site-packages/", "/dist-packages/"]
                    .iter()
                    .any(|part| object.name.contains(part))
            };
            let is_python = matches_name("*/lib/python?.*", &object.name) && is_installed()
                || object.name.starts_with("<frozen ");
            let is_java = || {
                const PACKAGES: [&str; 6] =
                    ["java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin."];
                let language = function.source.as_ref().map(|source| source.language);
                language == Some(Language::Java)
                    && (function.name.as_deref())
                        .is_ok_and(|name| PACKAGES.iter().any(|start| name.starts_with(start)))
            };
            return is_python || object.name.starts_with("node:") || is_java();
        }
        object.kind == ObjectKind::Kernel || is_standard() || is_shared() || is_extension()
    }
}

/// Returns the objects with functions of Go's runtime.
fn go_programs(profile: &Profile) -> FxHashSet<ObjectId> {
    let is_of_runtime = |function: &&Function| {
        (function.name.as_deref())
            .is_ok_and(|name| name.starts_with("runtime.") && language_of(name) == Language::Go)
    };
    let found = profile.functions.iter().filter(is_of_runtime);
    found.map(|function| function.object).collect()
}

/// Returns true for functions of the standard libraries of C++ and Rust, by name. If a program
/// defines a type, it also defines the methods of standard traits.
fn is_standard(name: &str) -> bool {
    const PATHS: [&str; 8] = [
        "std::",
        "core::",
        "alloc::",
        "hashbrown::",
        "__gnu_cxx::",
        "__gthread_",
        "__gthrw_",
        "__rust",
    ];
    let starts = |text: &str| PATHS.iter().any(|path| text.starts_with(path));
    // Code before `main`, which is linked into each program.
    if name == "_start" || name.starts_with("__libc_start_") {
        return true;
    }
    let Some(inner) = name.strip_prefix('<') else {
        return starts(name);
    };
    // `<T as alloc::slice::Join>::join`, `<&mut f64 as core::iter::Sum>::sum`.
    let (own, of_trait) = match inner.split_once(" as ") {
        Some((own, of_trait)) => (own, Some(of_trait)),
        None => (inner, None),
    };
    let whole = own;
    let own = own.trim_start_matches(['&', '[', '(', '*']);
    let own = own.strip_prefix("mut ").unwrap_or(own);
    let end = own.find(['<', '>', ']', ',', ')', ';', ' ']);
    let word = &own[..end.unwrap_or(own.len())];
    // Only the standard library gives methods to types of the language: `<u64>::rotate_left`,
    // `<[u8]>::to_vec`.
    if of_trait.is_none() && (is_of_language(word) || whole.starts_with(['&', '[', '(', '*'])) {
        return true;
    }
    // Parameters and primitive types have no path.
    let is_bare = !word.contains("::");
    // A trait within a method of a standard type: `<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec`.
    let is_standard_trait = |of: &str| starts(of) || of.starts_with('<') && is_standard(of);
    starts(own) || is_bare && of_trait.is_some_and(is_standard_trait)
}

fn is_of_language(word: &str) -> bool {
    const TYPES: &str = "u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool char str";
    TYPES.split(' ').any(|name| name == word)
}

/// Returns true for functions of Go's runtime and standard library.
fn is_standard_go(name: &str) -> bool {
    // Functions in assembly, without a package. C code of the program has none either.
    const ASSEMBLY: [&str; 8] = [
        "_rt0_*",
        "aeshashbody",
        "cmpbody",
        "countbody",
        "gcWriteBarrier*",
        "gogo*",
        "index*body",
        "memeqbody",
    ];
    // Names of methods may have slashes only in type arguments.
    let path = name.split(['[', '(']).next().unwrap_or(name);
    let package = match path.rsplit_once('/') {
        Some((folders, last)) => &path[..folders.len() + 1 + last.find('.').unwrap_or(last.len())],
        None => path.split('.').next().unwrap_or(path),
    };
    let first = package.split('/').next().unwrap_or(package);
    let is_assembly = || ASSEMBLY.iter().any(|known| matches_name(known, path));
    path.contains('.') && is_package_of_go(first) || is_assembly()
}

/// Returns true for the first part of a package of Go's distribution. Other modules may lack a
/// domain as well.
fn is_package_of_go(first: &str) -> bool {
    const PACKAGES: &str = "archive bufio bytes cmp compress container context crypto database \
        debug embed encoding errors expvar flag fmt go hash html image index internal io iter log \
        maps math mime net os path plugin reflect regexp runtime slices sort strconv strings \
        structs sync syscall testing text time unicode unique unsafe vendor weak type";
    PACKAGES.split_whitespace().any(|name| name == first)
}

/// Formats a share: `7.3%`, `42%`, `all`.
pub(crate) fn share_text(share: f64) -> String {
    match share {
        99.95.. => "100%".to_owned(),
        9.95.. => format!("{share:.0}%"),
        _ => format!("{share:.1}%"),
    }
}

/// Formats a part of something that is named before: `all of it`, `62% of it`.
pub(crate) fn part_text(share: f64) -> String {
    match share {
        99.5.. => "all of it".to_owned(),
        _ => format!("{share:.0}% of it"),
    }
}

/// Formats nanoseconds: `2.31 s`, `41 ms`.
pub(crate) fn time_text(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        0.9995.. => format!("{seconds:.2} s"),
        _ => format!("{:.0} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_libraries_are_known_by_their_names() {
        for name in [
            "_start",
            "std::vector<int>::push_back",
            "__gthread_mutex_lock",
            "<std::path::Path>::join",
            "hashbrown::map::make_hash",
            "<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec",
            "<A as core::slice::cmp::SlicePartialEq<B>>::equal_same_length",
            "<&mut f64 as core::iter::traits::accum::Sum>::sum",
            "<[T] as core::fmt::Debug>::fmt",
            "<[u8]>::to_vec_in::<alloc::alloc::Global>",
            "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "<u64>::rotate_left",
            "<str>::trim_matches",
            "<*const u8>::add",
            "<&alloc::string::String as core::fmt::Display>::fmt",
        ] {
            assert!(is_standard(name), "{name}");
        }
        for name in [
            "main",
            "shop::price",
            "<shop::Order as core::fmt::Display>::fmt",
            "<T as shop::Priced>::price",
            "<[shop::Order] as shop::Priced>::price",
            "<u64 as shop::Priced>::price",
            "<shop::Order>::price",
            "stdlib_like",
        ] {
            assert!(!is_standard(name), "{name}");
        }
        for name in [
            "runtime.goexit.abi0",
            "strings.genSplit",
            "encoding/json.Unmarshal",
            "sync.(*Mutex).Lock",
            "internal/bytealg.IndexByteString.abi0",
            "indexbytebody",
            "slices.pdqsortOrdered[go.shape.int]",
        ] {
            assert!(is_standard_go(name), "{name}");
        }
        for name in [
            "main.main",
            "main.(*Server).run",
            "github.com/x/y.Parse",
            "github.com/x/y/v2.(*T).Parse",
            "example.com/encoding/json.Unmarshal",
            "shop/order.Price",
            "sort_of",
            "c_function",
        ] {
            assert!(!is_standard_go(name), "{name}");
        }
    }
}
