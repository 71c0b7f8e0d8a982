//! [`Language`]: the languages that rprof tells apart.

use std::str::FromStr;

use crate::runtime::Runtime;

/// Language of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Language {
    /// Compiled code whose name does not prove its language, such as C.
    Native,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Kernel code, and the reasons of waits.
    Kernel,
    /// Python.
    Python,
    /// JavaScript, and languages that compile to it.
    JavaScript,
    /// Java, and other languages of the JVM.
    Java,
    /// Languages of .NET.
    DotNet,
    /// Erlang, and other languages of its virtual machine.
    Erlang,
    /// Lua.
    Lua,
}

/// Error for an unknown language name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown language {name:?}; valid languages: {}", Language::ALL.map(Language::key).join(", "))]
pub struct UnknownLanguage {
    /// The unknown name.
    pub name: String,
}

impl Language {
    /// Languages in display order.
    pub const ALL: [Language; 11] = [
        Language::Native,
        Language::Cpp,
        Language::Rust,
        Language::Go,
        Language::Kernel,
        Language::Python,
        Language::JavaScript,
        Language::Java,
        Language::DotNet,
        Language::Erlang,
        Language::Lua,
    ];

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Language::Native => "native",
            Language::Cpp => "C++",
            Language::Rust => "Rust",
            Language::Go => "Go",
            Language::Kernel => "kernel",
            Language::Python => "Python",
            Language::JavaScript => "JavaScript",
            Language::Java => "Java",
            Language::DotNet => ".NET",
            Language::Erlang => "Erlang",
            Language::Lua => "Lua",
        }
    }

    /// Returns the name for command lines, in lower case.
    pub fn key(self) -> &'static str {
        match self {
            Language::Native => "native",
            Language::Cpp => "c++",
            Language::Rust => "rust",
            Language::Go => "go",
            Language::Kernel => "kernel",
            Language::Python => "python",
            Language::JavaScript => "javascript",
            Language::Java => "java",
            Language::DotNet => ".net",
            Language::Erlang => "erlang",
            Language::Lua => "lua",
        }
    }

    /// Returns true for languages that compile to machine code ahead of time.
    pub fn is_native(self) -> bool {
        matches!(
            self,
            Language::Native | Language::Cpp | Language::Rust | Language::Go
        )
    }

    /// Returns true if a list has the language. [`Language::Native`] stands for all native ones.
    pub fn is_in(self, wanted: &[Language]) -> bool {
        wanted.contains(&self) || self.is_native() && wanted.contains(&Language::Native)
    }

    /// Returns the name of the frame for interpreter code that works for native code.
    pub fn runtime_frame(self) -> String {
        format!("[{} runtime]", self.name())
    }

    /// Returns the language of the interpreter in an image, by the image's file name.
    pub(crate) fn of_image(base: &str) -> Option<Language> {
        let is_version = |rest: &str| {
            let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'd' | 'm' | 't' | 'u');
            rest.chars().all(is_part)
        };
        let library = base
            .strip_prefix("libpython")
            .and_then(|rest| rest.split_once(".so"));
        let is_python = base.strip_prefix("python").is_some_and(is_version)
            || library.is_some_and(|(version, rest)| is_version(version) && is_version(rest));
        match Runtime::of_file(base) {
            _ if is_python => Some(Language::Python),
            Some(Runtime::Node) => Some(Language::JavaScript),
            Some(Runtime::Java) => Some(Language::Java),
            // The event loop of Node.js, and the launcher of Java.
            _ if base.starts_with("libuv.so") => Some(Language::JavaScript),
            _ if base == "libjli.so" => Some(Language::Java),
            _ => None,
        }
    }

    /// Returns the language of the code that a runtime generates.
    pub(crate) fn of_runtime(runtime: Runtime) -> Option<Language> {
        Some(match runtime {
            Runtime::DotNet => Language::DotNet,
            Runtime::Erlang => Language::Erlang,
            Runtime::Java => Language::Java,
            Runtime::LuaJit => Language::Lua,
            Runtime::Node => Language::JavaScript,
            _ => return None,
        })
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    /// Parses a [key](Language::key), or `js`, `py` or `cpp`. Ignores the case.
    fn from_str(name: &str) -> Result<Language, UnknownLanguage> {
        let lower = name.to_lowercase();
        match &*lower {
            "js" | "node" => Ok(Language::JavaScript),
            "py" => Ok(Language::Python),
            "cpp" => Ok(Language::Cpp),
            "dotnet" => Ok(Language::DotNet),
            _ => (Language::ALL.into_iter())
                .find(|language| language.key() == lower)
                .ok_or_else(|| UnknownLanguage {
                    name: name.to_owned(),
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_runtimes_are_recognised() {
        for (base, language) in [
            ("python3.11", Some(Language::Python)),
            ("python3", Some(Language::Python)),
            ("python", Some(Language::Python)),
            ("libpython3.13t.so.1.0", Some(Language::Python)),
            ("python3-config", None),
            ("libpython_helper.so", None),
            ("node", Some(Language::JavaScript)),
            ("libjvm.so", Some(Language::Java)),
            ("libc.so.6", None),
        ] {
            assert_eq!(Language::of_image(base), language, "{base}");
        }
    }

    #[test]
    fn keys_are_parsed_and_others_listed_in_the_error() {
        for language in Language::ALL {
            assert_eq!(language.key().parse(), Ok(language));
            assert_eq!(language.name().parse(), Ok(language));
        }
        assert_eq!("JS".parse(), Ok(Language::JavaScript));
        let error = "cobol".parse::<Language>().unwrap_err().to_string();
        assert!(
            error.contains("\"cobol\"") && error.contains("python, javascript"),
            "{error}"
        );
    }
}
