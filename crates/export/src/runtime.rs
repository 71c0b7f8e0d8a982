//! [`Runtime`]: whose generated code, or whose own stacks, a profile has.

use rprof_profile::Profile;

/// A runtime that makes code as it goes, or keeps stacks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// SBCL, a Common Lisp.
    Sbcl,
}

impl Runtime {
    /// Returns the runtime that the files of a profile show, if it is only one.
    pub fn of(profile: &Profile) -> Option<Runtime> {
        let by_object = profile
            .objects
            .iter()
            .filter_map(|o| of_file(o.base_name()));
        let is_haskell = |function: &rprof_profile::Function| {
            let name = function.name.as_deref().unwrap_or_default();
            name == "hs_main" || name.starts_with("stg_ap_")
        };
        let haskell = profile
            .functions
            .iter()
            .find(|function| is_haskell(function));
        let mut all = by_object.chain(haskell.map(|_| Runtime::Haskell));
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
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
            Runtime::Sbcl => "SBCL",
        }
    }

    /// Returns the reason for which stacks of such programs are cut, where that is the runtime's own.
    pub fn cuts_stacks(self) -> Option<&'static str> {
        match self {
            Runtime::Erlang => Some("Erlang's code keeps no frame pointers unless it is told to"),
            Runtime::Haskell => {
                Some("Haskell's callers are on a stack in the heap, of which no sample has a copy")
            }
            _ => None,
        }
    }
}

/// Returns the runtime that a file is of, by its name without folders.
fn of_file(name: &str) -> Option<Runtime> {
    Some(match name {
        "beam.smp" => Runtime::Erlang,
        "libjvm.so" => Runtime::Java,
        "libcoreclr.so" => Runtime::DotNet,
        "sbcl" | "sbcl.core" => Runtime::Sbcl,
        "node" | "nodejs" => Runtime::Node,
        _ if name.starts_with("libnode.so") => Runtime::Node,
        _ if name.starts_with("libguile-") => Runtime::Guile,
        _ if name.starts_with("luajit") || name.starts_with("libluajit-") => Runtime::LuaJit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::ProfileBuilder;

    #[test]
    fn one_runtime_is_told_and_several_are_not() {
        let of = |objects: &[&str], functions: &[&str]| {
            let mut builder = ProfileBuilder::new();
            let ids: Vec<_> = objects
                .iter()
                .map(|name| builder.intern_object(name))
                .collect();
            for name in functions {
                builder.intern_function(Ok(name), ids[0]);
            }
            Runtime::of(&builder.finish())
        };
        assert_eq!(of(&["/usr/bin/ls"], &["main"]), None);
        assert_eq!(
            of(&["/usr/bin/sbcl", "/usr/lib/sbcl/sbcl.core"], &[]),
            Some(Runtime::Sbcl)
        );
        assert_eq!(
            of(&["/opt/beam.smp", "/lib/libc.so.6"], &[]),
            Some(Runtime::Erlang)
        );
        assert_eq!(of(&["/opt/beam.smp", "/usr/bin/node"], &[]), None);
        assert_eq!(of(&["/home/x/prog"], &["hs_main"]), Some(Runtime::Haskell));
        assert_eq!(
            of(&["/usr/bin/luajit-2.1.0-beta3"], &[]),
            Some(Runtime::LuaJit)
        );
    }
}
