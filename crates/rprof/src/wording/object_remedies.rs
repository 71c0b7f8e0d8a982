//! Remedies for objects without symbols: debug packages, flags of runtimes.

use rprof_profile::{Reason, Runtime};

use crate::wording::packages::{Owner, owner_of};

/// Minimum self share of an object, in percent, for a search in all package lists.
const SEARCHED: f64 = 5.0;

/// Returns a more specific remedy than the reason's. `own` is the self share in percent.
pub(crate) fn of_object(object: &str, reason: Reason, own: f64) -> Option<String> {
    match reason {
        Reason::Stripped | Reason::NoSymbolAtAddress => {
            Some(match owner_of(object, own >= SEARCHED)? {
                Owner::Dpkg(package) => format!(
                    "Package {package}: install {package}-dbgsym (from the debug archive), or download \
                 its symbols with `--debuginfod`."
                ),
                Owner::Rpm(Some(package)) => format!(
                    "Package {package}: install its debug symbols (`dnf debuginfo-install {package}`, \
                 `zypper install {package}-debuginfo`), or download them with `--debuginfod`."
                ),
                Owner::Rpm(None) => format!(
                    "Install its debug symbols (`rpm -qf {object}` prints the package for `dnf \
                 debuginfo-install`), or download them with `--debuginfod`."
                ),
            })
        }
        Reason::JitWithoutMap | Reason::AnonymousMemory => Some(
            "A JIT compiler generated this code without symbols. Make it write a perf map or a \
             jitdump; `rprof record --runtimes` does this for Node.js, Java, Python, .NET and \
             Erlang."
                .into(),
        ),
        _ => None,
    }
}

/// Returns how to get symbols from a runtime, or another profiler that shows them.
pub(crate) fn for_names_of(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Deno => {
            "Make Deno write its symbols: `deno run \
             --v8-flags=--perf-basic-prof,--interpreted-frames-native-stack …`."
        }
        Runtime::Bun => {
            "Make Bun write its symbols: start it with BUN_JSC_useJITDump=1 and \
             BUN_JSC_jitDumpDirectory=/tmp."
        }
        Runtime::Node => {
            "Make Node.js write its symbols: start it with `rprof record --runtimes -- node …`, or \
             with `node --perf-basic-prof --interpreted-frames-native-stack`."
        }
        Runtime::Java => {
            "Make Java write its symbols: record with --runtimes, run `java \
             -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit`, or `jcmd PID \
             Compiler.perfmap` while it is recorded."
        }
        Runtime::DotNet => {
            "Make .NET write its symbols: start it with `rprof record --runtimes -- …`, or with \
             DOTNET_PerfMapEnabled=1."
        }
        Runtime::Erlang => {
            "Make Erlang write its symbols: start it with `rprof record --runtimes -- …`, or with \
             `erl +JPperf true`."
        }
        Runtime::Guile => {
            "Guile exports no symbols of its compiled code; its own profiler, statprof, shows \
             procedures."
        }
        Runtime::LuaJit => {
            "LuaJIT exports no symbols of its traces; its own profiler, `luajit -jp`, shows Lua \
             functions."
        }
        Runtime::Php => {
            "Make PHP name them: `php -d opcache.jit_debug=16 …`, or this setting in php.ini."
        }
        Runtime::Ruby => "Ruby 3.3 and later name compiled methods: `ruby --yjit --yjit-perf …`.",
        Runtime::Qemu => {
            "Make QEMU write its symbols: run it with `-perfmap` (QEMU 8.0 and later)."
        }
        Runtime::Sbcl => {
            "SBCL exports no symbols of its code; its own profiler, sb-sprof, shows Lisp functions."
        }
        _ => "Its own profiler may show them.",
    }
}

pub(crate) fn for_stacks_of(runtime: Runtime) -> Option<&'static str> {
    match runtime {
        Runtime::Erlang => {
            Some("start it with `rprof record --runtimes -- …`, or with `erl +JPperf true`")
        }
        Runtime::Haskell => Some(
            "GHC's own profiler shows callers (build with -prof -fprof-auto, run with +RTS -p)",
        ),
        _ => None,
    }
}

/// Returns how to see the functions that an interpreter runs, by its main loop and its object.
pub(crate) fn of_interpreter(function: &str, object: &str) -> Option<String> {
    let remedy = match function {
        "execute_ex" => {
            "PHP 8 names them if OPcache compiles them: `php -d opcache.enable_cli=1 -d \
             opcache.jit_buffer_size=64M -d opcache.jit=tracing -d opcache.jit_debug=16 …`."
        }
        "vm_exec_core" | "rb_vm_exec" => {
            "Ruby 3.3 and later name compiled methods: `ruby --yjit --yjit-perf …`. rbspy shows \
             those of other versions."
        }
        "Perl_runops_standard" => "Devel::NYTProf shows them: `perl -d:NYTProf …`.",
        "Rf_eval" => "R's own profiler shows them: `Rprof()`.",
        "caml_interprete" => "OCaml's native code has symbols: compile with `ocamlopt`.",
        "luaV_execute" => {
            "Lua exports no symbols of its functions; LuaJIT's own profiler shows those of programs \
             that run in it: `luajit -jp`."
        }
        "TclNRRunCallbacks" => {
            "Tcl exports no symbols of its procedures; the package `profiler` of Tcllib shows them."
        }
        _ => return of_python(object),
    };
    Some(remedy.to_owned())
}

/// Returns how to name Python functions, by the program or library of the interpreter.
pub(crate) fn of_python(object: &str) -> Option<String> {
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
        _ => return Some("Python 3.12 and later show them with `python3 -X perf`.".into()),
    };
    Some(match has_trampolines {
        true => "Run it with `python3 -X perf` (or PYTHONPERFSUPPORT=1).".into(),
        false => {
            let version = version.trim_end_matches('.');
            let short: Vec<&str> = version.split('.').take(2).collect();
            let short = short.join(".");
            format!("Python 3.12 and later show them with `python3 -X perf`; this is {short}.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_told_by_its_version() {
        let of = |object| of_interpreter("_PyEval_EvalFrameDefault", object).unwrap_or_default();
        assert!(of("/usr/lib/libpython3.11.so.1.0").ends_with("this is 3.11."));
        assert!(of("/usr/bin/python3.13").starts_with("Run it with `python3 -X perf`"));
        assert!(of("/usr/bin/python3").starts_with("Python 3.12 and later"));
        assert_eq!(of_python("/usr/bin/perl"), None);
    }

    #[test]
    fn runtimes_are_told_their_flags() {
        for (runtime, flag) in [
            (Runtime::Node, "--perf-basic-prof"),
            (Runtime::Java, "DumpPerfMapAtExit"),
            (Runtime::Qemu, "-perfmap"),
            (Runtime::Deno, "--v8-flags"),
            (Runtime::Bun, "BUN_JSC_useJITDump"),
            (Runtime::Php, "opcache.jit_debug=16"),
            (Runtime::Ruby, "--yjit-perf"),
        ] {
            assert!(for_names_of(runtime).contains(flag), "{flag}");
        }
        // A program with its own compiler.
        let text = of_object("/tmp/perf-1.map", Reason::JitWithoutMap, 50.0).unwrap_or_default();
        assert!(
            !text.contains("node ") && text.contains("perf map"),
            "{text}"
        );
    }
}
