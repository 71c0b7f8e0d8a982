//! [`Runtime`]: a runtime whose generated code, or whose own stacks, a profile has.

/// A runtime that makes code as it goes, or keeps stacks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// .NET.
    DotNet,
    /// Erlang's emulator.
    Erlang,
    /// Guile, a Scheme.
    Guile,
    /// Programs that GHC compiled.
    Haskell,
    /// HotSpot, and other machines with its library.
    Java,
    /// LuaJIT.
    LuaJit,
    /// Node.js.
    Node,
    /// QEMU, which translates the code of its guests.
    Qemu,
    /// SBCL, a Common Lisp.
    Sbcl,
}

impl Runtime {
    /// Returns the runtime that a program or library belongs to, by its file name without folders.
    pub fn of_file(name: &str) -> Option<Runtime> {
        Some(match name {
            "beam.smp" => Runtime::Erlang,
            "libjvm.so" => Runtime::Java,
            "libcoreclr.so" => Runtime::DotNet,
            "sbcl" | "sbcl.core" => Runtime::Sbcl,
            "node" | "nodejs" => Runtime::Node,
            _ if name.starts_with("libnode.so") => Runtime::Node,
            _ if name.starts_with("libguile-") => Runtime::Guile,
            _ if name.starts_with("luajit") || name.starts_with("libluajit-") => Runtime::LuaJit,
            _ if name.starts_with("qemu-") => Runtime::Qemu,
            _ => return None,
        })
    }

    /// Returns the runtime that a function proves by its name: GHC links its own into each program.
    pub fn of_function(name: &str) -> Option<Runtime> {
        (name == "hs_main" || name.starts_with("stg_ap_")).then_some(Runtime::Haskell)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::DotNet => ".NET",
            Runtime::Erlang => "Erlang",
            Runtime::Guile => "Guile",
            Runtime::Haskell => "Haskell",
            Runtime::Java => "Java",
            Runtime::LuaJit => "LuaJIT",
            Runtime::Node => "Node.js",
            Runtime::Qemu => "QEMU",
            Runtime::Sbcl => "SBCL",
        }
    }

    /// Returns the reason for which stacks of such programs are cut, where that is the runtime's own.
    pub fn cuts_stacks(self) -> Option<&'static str> {
        match self {
            Runtime::Erlang => Some("Erlang code keeps no frame pointers by default"),
            Runtime::Haskell => {
                Some("Haskell keeps its call stack in the heap, which samples do not copy")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_functions_of_runtimes_are_recognised() {
        for (file, runtime) in [
            ("ls", None),
            ("mynode", None),
            ("beam.smp", Some(Runtime::Erlang)),
            ("libnode.so.108", Some(Runtime::Node)),
            ("luajit-2.1.0-beta3", Some(Runtime::LuaJit)),
            ("qemu-system-x86_64", Some(Runtime::Qemu)),
            ("sbcl.core", Some(Runtime::Sbcl)),
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
