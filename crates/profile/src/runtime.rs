//! [`Runtime`]: language runtimes with JIT code or their own stacks.

/// A runtime that generates code, or manages its own stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// Bun, which runs JavaScript in JavaScriptCore.
    Bun,
    /// Deno, which runs JavaScript in V8.
    Deno,
    /// .NET.
    DotNet,
    /// Erlang's emulator.
    Erlang,
    /// Guile, a Scheme.
    Guile,
    /// Programs compiled by GHC.
    Haskell,
    /// HotSpot, and other JVMs with `libjvm.so`.
    Java,
    /// LuaJIT.
    LuaJit,
    /// Node.js.
    Node,
    /// PHP, whose OPcache compiles functions.
    Php,
    /// QEMU, which translates guest code.
    Qemu,
    /// Ruby, whose YJIT compiles methods.
    Ruby,
    /// SBCL, a Common Lisp.
    Sbcl,
}

impl Runtime {
    /// Detects the runtime by file name, without folders.
    pub fn of_file(name: &str) -> Option<Runtime> {
        Some(match name {
            "beam.smp" => Runtime::Erlang,
            // `bun.exe` is the name of npm's package on all systems.
            "bun" | "bun.exe" => Runtime::Bun,
            "deno" => Runtime::Deno,
            "libjvm.so" => Runtime::Java,
            "libcoreclr.so" => Runtime::DotNet,
            "sbcl" | "sbcl.core" => Runtime::Sbcl,
            "node" | "nodejs" => Runtime::Node,
            _ if name.starts_with("libnode.so") => Runtime::Node,
            _ if name.starts_with("libguile-") => Runtime::Guile,
            _ if name.starts_with("luajit") || name.starts_with("libluajit-") => Runtime::LuaJit,
            _ if name.starts_with("qemu-") => Runtime::Qemu,
            _ if is_version_of("php", name) || is_version_of("libphp", name) => Runtime::Php,
            _ if name.starts_with("php-") => Runtime::Php,
            _ if is_version_of("ruby", name) || is_version_of("libruby", name) => Runtime::Ruby,
            _ => return None,
        })
    }

    /// Detects the runtime by function name: GHC links its runtime into each program.
    pub fn of_function(name: &str) -> Option<Runtime> {
        (name == "hs_main" || name.starts_with("stg_ap_")).then_some(Runtime::Haskell)
    }

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Bun => "Bun",
            Runtime::Deno => "Deno",
            Runtime::DotNet => ".NET",
            Runtime::Erlang => "Erlang",
            Runtime::Guile => "Guile",
            Runtime::Haskell => "Haskell",
            Runtime::Java => "Java",
            Runtime::LuaJit => "LuaJIT",
            Runtime::Node => "Node.js",
            Runtime::Php => "PHP",
            Runtime::Qemu => "QEMU",
            Runtime::Ruby => "Ruby",
            Runtime::Sbcl => "SBCL",
        }
    }

    /// Returns why the runtime truncates stacks, if it does.
    pub fn cuts_stacks(self) -> Option<&'static str> {
        match self {
            Runtime::Erlang => Some("Erlang's code has no frame pointers by default"),
            Runtime::Haskell => {
                Some("Haskell keeps callers on a heap stack, which samples do not copy")
            }
            _ => None,
        }
    }
}

/// Returns true for a program or library with this name and perhaps a version: `php8.2`,
/// `libruby-3.1.so.3.1`.
fn is_version_of(name: &str, file: &str) -> bool {
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || "-.".contains(c));
    let stem = file.split_once(".so").map_or(file, |(stem, _)| stem);
    stem.strip_prefix(name).is_some_and(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_functions_of_runtimes_are_recognised() {
        for (file, runtime) in [
            ("ls", None),
            ("mynode", None),
            ("deno", Some(Runtime::Deno)),
            ("bun", Some(Runtime::Bun)),
            ("bun.exe", Some(Runtime::Bun)),
            ("beam.smp", Some(Runtime::Erlang)),
            ("libnode.so.108", Some(Runtime::Node)),
            ("luajit-2.1.0-beta3", Some(Runtime::LuaJit)),
            ("qemu-system-x86_64", Some(Runtime::Qemu)),
            ("sbcl.core", Some(Runtime::Sbcl)),
            ("php8.2", Some(Runtime::Php)),
            ("php-fpm8.2", Some(Runtime::Php)),
            ("phpunit", None),
            ("libruby-3.1.so.3.1.2", Some(Runtime::Ruby)),
            ("ruby", Some(Runtime::Ruby)),
        ] {
            assert_eq!(Runtime::of_file(file), runtime, "{file}");
        }
        assert_eq!(
            Runtime::of_function("stg_ap_pp_fast"),
            Some(Runtime::Haskell)
        );
        assert_eq!(Runtime::of_function("main"), None);
    }
}
