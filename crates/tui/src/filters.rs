//! Interactive filters as conditions, labels and command-line options.

use rprof_export::CleanNames;
use rprof_export::clean::{clean, shell_word};
use rprof_profile::pattern::matches_function;
use rprof_profile::views::selection::{Condition, FunctionSet, functions_where};
use rprof_profile::{Profile, ThreadId};

use crate::search;

/// Kind of a filter. Only [`Stacks`](FilterKind::Stacks) allows several filters at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterKind {
    Thread,
    Process,
    Comm,
    Object,
    Cpu,
    Time,
    Stacks,
}

#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Keep only samples that meet the condition.
    Keep(Condition),
    Remove(FunctionSet),
}

#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) kind: FilterKind,
    pub(crate) rule: Rule,
    /// Clean description of the remaining samples: `tid 4711`.
    pub(crate) label: String,
    /// Equivalent option and value of `rprof report`, if any.
    pub(crate) words: Option<[String; 2]>,
    pub(crate) pattern: Option<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Regex(String),
    /// Name pattern in the syntax of `--focus`.
    Name(String),
}

impl Pattern {
    fn label(&self) -> String {
        match self {
            Pattern::Regex(text) => clean(&format!("/{text}/")).into_owned(),
            Pattern::Name(name) => clean(name).into_owned(),
        }
    }
}

impl Filter {
    pub(crate) fn thread(profile: &Profile, id: ThreadId) -> Filter {
        let thread = profile.thread(id);
        match thread.tid {
            Some(tid) => Filter {
                kind: FilterKind::Thread,
                rule: Rule::Keep(Condition::Thread(id)),
                label: format!("tid {tid}"),
                words: Some(["--tid".into(), tid.to_string()]),
                pattern: None,
            },
            None => Filter::comm(profile, thread.comm),
        }
    }

    pub(crate) fn process(pid: i32) -> Filter {
        Filter {
            kind: FilterKind::Process,
            rule: Rule::Keep(Condition::Process(pid)),
            label: format!("pid {pid}"),
            words: Some(["--pid".into(), pid.to_string()]),
            pattern: None,
        }
    }

    pub(crate) fn comm(profile: &Profile, comm: u32) -> Filter {
        let name = CleanNames::new(profile).comm(comm).into_owned();
        Filter {
            kind: FilterKind::Comm,
            rule: Rule::Keep(Condition::Comm(comm)),
            label: format!("comm {name}"),
            words: Some(["--comm".into(), name]),
            pattern: None,
        }
    }

    pub(crate) fn object(profile: &Profile, object: rprof_profile::ObjectId) -> Filter {
        let names = CleanNames::new(profile);
        Filter {
            kind: FilterKind::Object,
            rule: Rule::Keep(Condition::Object(object)),
            label: names.object_base(object).into_owned(),
            words: Some(["--dso".into(), names.object(object).into_owned()]),
            pattern: None,
        }
    }

    pub(crate) fn cpu(cpu: u32) -> Filter {
        Filter {
            kind: FilterKind::Cpu,
            rule: Rule::Keep(Condition::Cpu(cpu)),
            label: format!("CPU {cpu}"),
            words: Some(["--cpu".into(), cpu.to_string()]),
            pattern: None,
        }
    }

    /// Creates a filter of a time range in nanoseconds. `start` is the beginning of the recording.
    pub(crate) fn time(start: u64, from: u64, to: u64) -> Filter {
        let since = |time: u64| time.saturating_sub(start) as f64 / 1e9;
        let exact = |time: u64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
        Filter {
            kind: FilterKind::Time,
            rule: Rule::Keep(Condition::Time(from, to)),
            label: format!("{:.3}–{:.3} s", since(from), since(to)),
            words: Some(["--time".into(), format!("{},{}", exact(from), exact(to))]),
            pattern: None,
        }
    }

    /// Creates a filter that keeps stacks with (`has_to`) or without some functions. `focus` is the
    /// equivalent value of `--focus`.
    pub(crate) fn stacks(
        functions: FunctionSet,
        has_to: bool,
        pattern: Pattern,
        focus: Option<String>,
    ) -> Filter {
        let label = pattern.label();
        Filter {
            kind: FilterKind::Stacks,
            words: (focus.filter(|_| has_to))
                .map(|name| ["--focus".into(), clean(&name).into_owned()]),
            label: match has_to {
                true => label,
                false => format!("not {label}"),
            },
            rule: Rule::Keep(match has_to {
                true => Condition::With(functions),
                false => Condition::Without(functions),
            }),
            pattern: Some(pattern),
        }
    }

    /// Creates a filter that removes functions from stacks. Their callers inherit the weight.
    pub(crate) fn removal(functions: FunctionSet, pattern: Pattern) -> Filter {
        Filter {
            kind: FilterKind::Stacks,
            rule: Rule::Remove(functions),
            label: format!("removed {}", pattern.label()),
            words: None,
            pattern: Some(pattern),
        }
    }

    pub(crate) fn condition(&self) -> Option<&Condition> {
        match &self.rule {
            Rule::Keep(condition) => Some(condition),
            Rule::Remove(_) => None,
        }
    }

    pub(crate) fn renew(&mut self, profile: &Profile) {
        let functions = match &self.pattern {
            None => return,
            Some(Pattern::Name(name)) => named(profile, name),
            Some(Pattern::Regex(text)) => match search::compile(text) {
                Ok(regex) => search::matching(profile, &regex),
                Err(_) => return,
            },
        };
        self.rule = match self.rule {
            Rule::Remove(_) => Rule::Remove(functions),
            Rule::Keep(Condition::Without(_)) => Rule::Keep(Condition::Without(functions)),
            Rule::Keep(_) => Rule::Keep(Condition::With(functions)),
        };
    }
}

/// Returns the functions that filters remove from stacks; `None` without such filters.
pub(crate) fn removed(filters: &[Filter]) -> Option<FunctionSet> {
    let sets = filters.iter().filter_map(|filter| match &filter.rule {
        Rule::Remove(functions) => Some(functions),
        Rule::Keep(_) => None,
    });
    sets.cloned().reduce(|all, more| {
        let either = |(a, b): (&bool, &bool)| *a || *b;
        all.iter().zip(&*more).map(either).collect()
    })
}

/// Returns the functions that match a `--focus` pattern.
pub(crate) fn named(profile: &Profile, pattern: &str) -> FunctionSet {
    functions_where(profile, |id| {
        let name = profile.function(id).name.as_deref();
        name.is_ok_and(|name| matches_function(pattern, name))
    })
}

/// Returns the equivalent command line. A trailing comment lists filters that have no option.
pub(crate) fn command_line(command: &[String], filters: &[Filter]) -> String {
    let mut words: Vec<String> = command
        .iter()
        .map(|word| shell_word(word.as_bytes()))
        .collect();
    let options = filters.iter().filter_map(|filter| filter.words.as_ref());
    words.extend(options.flatten().map(|word| shell_word(word.as_bytes())));
    let without = filters.iter().filter(|filter| filter.words.is_none());
    let without: Vec<&str> = without.map(|filter| &*filter.label).collect();
    match without.is_empty() {
        true => words.join(" "),
        false => format!(
            "{}  # and in the views: {}",
            words.join(" "),
            without.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_one_that_a_shell_reads() {
        let command = ["rprof", "report", "--tui", "a b.data"].map(str::to_owned);
        let filters = [
            Filter::process(12),
            Filter::time(1_000_000_000, 1_500_000_000, 2_000_000_001),
            Filter::stacks(
                [true].into(),
                true,
                Pattern::Name("it's".into()),
                Some("it's".into()),
            ),
        ];
        assert_eq!(filters[1].label, "0.500–1.000 s");
        assert_eq!(
            command_line(&command, &filters),
            r"rprof report --tui 'a b.data' --pid 12 --time 1.500000000,2.000000001 --focus 'it'\''s'"
        );
        let out = [Filter::stacks(
            [true].into(),
            false,
            Pattern::Regex("^x".into()),
            None,
        )];
        assert_eq!(
            command_line(&command[..3], &out),
            "rprof report --tui  # and in the views: not /^x/"
        );
    }
}
