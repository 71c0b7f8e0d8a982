//! Remedies for the objects whose functions have no name: packages with debug symbols, flags of runtimes.

use rprof_export::runtime::Runtime;
use rprof_profile::Reason;

use crate::packages::{Owner, owner_of};

/// Returns what helps against unnamed functions of an object, where more is known than the reason says.
pub(crate) fn of_object(object: &str, reason: Reason) -> Option<String> {
    match reason {
        Reason::Stripped | Reason::NoSymbolAtAddress => Some(match owner_of(object)? {
            Owner::Dpkg(package) => format!(
                "It is of package {package}: install its debug symbols ({package}-dbgsym, from the debug \
                 archive), or have them downloaded with `--debuginfod`."
            ),
            Owner::Rpm(Some(package)) => format!(
                "It is of package {package}: install its debug symbols (`dnf debuginfo-install {package}`, `zypper install \
                 {package}-debuginfo`), or have them downloaded with `--debuginfod`."
            ),
            Owner::Rpm(None) => format!(
                "Install its debug symbols (`rpm -qf {object}` tells the package, `dnf debuginfo-install` \
                 takes it), or have them downloaded with `--debuginfod`."
            ),
        }),
        Reason::JitWithoutMap | Reason::AnonymousMemory => Some(
            "Have the runtime write its names: `node --perf-basic-prof --interpreted-frames-native-stack`, \
             `java \
             -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` (or `jcmd PID Compiler.perfmap` while it is recorded), `python3 -X \
             perf`, `erl +JPperf true`, `DOTNET_PerfMapEnabled=1`."
                .into(),
        ),
        _ => None,
    }
}

/// Returns what makes a runtime write the names of its code, or shows them otherwise.
pub(crate) fn for_names_of(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Node => {
            "Have Node.js write its names: record with --runtimes, or run `node --perf-basic-prof \
             --interpreted-frames-native-stack`."
        }
        Runtime::Java => {
            "Have Java write its names: record with --runtimes, run `java -XX:+UnlockDiagnosticVMOptions \
             -XX:+DumpPerfMapAtExit`, or `jcmd PID Compiler.perfmap` while it is recorded."
        }
        Runtime::DotNet => {
            "Have .NET write its names: record with --runtimes, or set DOTNET_PerfMapEnabled=1."
        }
        Runtime::Erlang => {
            "Have Erlang write its names: record with --runtimes, or run `erl +JPperf true`."
        }
        Runtime::Guile => {
            "Guile tells nobody the names of the code that it compiles; its own profiler, statprof, shows \
             procedures."
        }
        Runtime::LuaJit => {
            "LuaJIT tells nobody the names of its traces; its own profiler, `luajit -jp`, shows functions of Lua."
        }
        Runtime::Sbcl => {
            "SBCL tells nobody the names of its code; its own profiler, sb-sprof, shows functions of Lisp."
        }
        _ => "Its own profiler may show them.",
    }
}

/// Returns what makes the stacks of a runtime whole.
pub(crate) fn for_stacks_of(runtime: Runtime) -> Option<&'static str> {
    match runtime {
        Runtime::Erlang => Some("record with --runtimes, or run `erl +JPperf true`"),
        Runtime::Haskell => Some(
            "callers are shown by GHC's own profiler (build with -prof -fprof-auto, run with +RTS -p)",
        ),
        _ => None,
    }
}

/// Returns what names the functions that an interpreter runs, by the object that it lies in.
pub(crate) fn of_interpreter(object: &str) -> Option<String> {
    let base = object.rsplit('/').next().unwrap_or(object);
    let version = base
        .strip_prefix("lib")
        .unwrap_or(base)
        .strip_prefix("python")?;
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let version = version.split(|c| !is_digit(c)).next().unwrap_or("");
    let mut parts = version
        .split('.')
        .filter_map(|part| part.parse::<u32>().ok());
    let has_trampolines = match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => (major, minor) >= (3, 12),
        _ => return Some("Python 3.12 and later name them with `python3 -X perf`.".into()),
    };
    Some(match has_trampolines {
        true => "Run it with `python3 -X perf` (or PYTHONPERFSUPPORT=1).".into(),
        false => {
            let version = version.trim_end_matches('.');
            let short: Vec<&str> = version.split('.').take(2).collect();
            let short = short.join(".");
            format!("Python 3.12 and later name them with `python3 -X perf`; this is {short}.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_told_by_its_version() {
        let of = |object| of_interpreter(object).unwrap_or_default();
        assert!(of("/usr/lib/libpython3.11.so.1.0").ends_with("this is 3.11."));
        assert!(of("/usr/bin/python3.13").starts_with("Run it with `python3 -X perf`"));
        assert!(of("/usr/bin/python3").starts_with("Python 3.12 and later"));
        assert_eq!(of_interpreter("/usr/bin/perl"), None);
    }

    #[test]
    fn runtimes_are_told_their_flags() {
        let text = of_object("/tmp/perf-1.map", Reason::JitWithoutMap).unwrap_or_default();
        for flag in ["--perf-basic-prof", "DumpPerfMapAtExit", "-X perf"] {
            assert!(text.contains(flag), "{text}");
        }
    }
}
