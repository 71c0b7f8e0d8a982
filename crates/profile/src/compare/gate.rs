//! [`ProfileDiff::gate`]: decides whether a change passes.

use super::{Change, Design, FunctionDiff, GateRules, Outcome, ProfileDiff, Scope, Verdict, Work};
use crate::pattern::matches_name;

/// Minimum share of a function that counts as the whole program.
const NEARLY_ALL: f64 = 0.95;

/// Result of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// No relevant increase.
    Passed,
    /// A certain increase.
    Regressed,
    /// The result is inconclusive.
    Inconclusive,
}

impl GateRules {
    fn allows(&self, row: &FunctionDiff) -> bool {
        is_any(&self.allow, row)
    }

    fn counts(&self, row: &FunctionDiff) -> bool {
        let is_chosen = self.only.is_empty() || is_any(&self.only, row);
        is_chosen && !self.allows(row)
    }
}

fn is_any(patterns: &[String], row: &FunctionDiff) -> bool {
    let name = row.name.as_deref().unwrap_or("[unknown]");
    patterns.iter().any(|pattern| matches_name(pattern, name))
}

impl ProfileDiff {
    /// Decides whether the change passes a gate. A certain increase above the threshold fails it, a
    /// possible one is inconclusive, and any decrease passes.
    ///
    /// A uniform slowdown may come from the machine. It fails in a paired design, and is otherwise
    /// inconclusive.
    pub fn gate(&self) -> Gate {
        if self.outcome == Outcome::Same {
            return Gate::Passed;
        }
        if !self.is_certain() {
            return Gate::Inconclusive;
        }
        let has_risen = match self.outcome {
            Outcome::Uniform => {
                self.whole.verdict == Verdict::Regressed && !self.is_allowed(&self.whole)
            }
            _ => self.program_has(|whole| whole.verdict == Verdict::Regressed),
        };
        match (self.outcome, self.design) {
            (Outcome::Uniform, Design::Independent) if has_risen => Gate::Inconclusive,
            _ if has_risen || self.failing().next().is_some() => Gate::Regressed,
            _ if self.program_may_exceed() || self.suspects() => Gate::Inconclusive,
            _ if self.undecided().next().is_some() => Gate::Inconclusive,
            _ => Gate::Passed,
        }
    }

    /// Returns true if the program is in scope and its increase may exceed the threshold.
    pub fn program_may_exceed(&self) -> bool {
        self.program_has(|whole| whole.may_exceed(self.threshold))
    }

    /// Returns true if the program is in scope and has a property not caused by permitted
    /// functions.
    fn program_has(&self, property: impl Fn(&Change) -> bool) -> bool {
        let is_asked = matches!(self.rules.scope, Scope::All | Scope::Program);
        is_asked && property(&self.whole) && !self.is_allowed(&self.whole)
    }

    /// Returns checked functions with increases that may exceed the threshold, largest first.
    ///
    /// Small functions vary by more than most thresholds, so only observed increases qualify.
    pub fn undecided(&self) -> impl Iterator<Item = &FunctionDiff> {
        let (own, total) = self.rules.scope.parts();
        let may_exceed = |change: &Change| {
            let is_seen = change.verdict == Verdict::MayExceed;
            is_seen && change.may_exceed(self.threshold) && self.may_count(change)
        };
        let mut rows: Vec<&FunctionDiff> = (self.functions.iter())
            .filter(|row| self.rules.counts(row))
            .filter(|row| {
                let of_total = || may_exceed(&row.total) && !self.is_allowed(&row.total);
                (own && may_exceed(&row.own)) || (total && of_total())
            })
            .collect();
        rows.sort_by(|a, b| {
            let rise = |row: &FunctionDiff| row.own.difference().max(row.total.difference());
            rise(b).total_cmp(&rise(a))
        });
        rows.into_iter()
    }

    /// Returns true if the interval's upper bound is a relevant increase. Functions with nearly the
    /// whole weight are left to the test of the program, which has no sampling noise.
    fn may_count(&self, change: &Change) -> bool {
        let is_program = [(change.old, self.whole.old), (change.new, self.whole.new)];
        if self.work != Work::Share
            && is_program
                .iter()
                .all(|(part, all)| *part >= NEARLY_ALL * all)
        {
            return false;
        }
        let least = self.min_share * (self.whole.old + self.whole.new) / 2.0;
        let rise = match change.highest() {
            highest if highest.is_finite() => (highest - 1.0) * change.old,
            _ => change.difference(),
        };
        rise >= least
    }

    /// Returns functions that fail the gate, largest increase first. Omits callers
    /// [explained](FunctionDiff::explained_by) by other failing functions.
    pub fn failing(&self) -> impl Iterator<Item = &FunctionDiff> {
        let (own, total) = self.rules.scope.parts();
        let has_risen = |change: &Change| change.verdict == Verdict::Regressed;
        let fails = |row: &FunctionDiff| {
            let has_own = own && has_risen(&row.own);
            let has_total = || total && has_risen(&row.total) && !self.is_allowed(&row.total);
            self.rules.counts(row) && (has_own || has_total())
        };
        let causes = |row: &FunctionDiff| {
            let cause = |row: &&FunctionDiff| Some(&self.functions[row.explained_by?]);
            std::iter::successors(cause(&row), cause)
        };
        let mut rows: Vec<&FunctionDiff> = (self.functions.iter())
            .filter(|row| fails(row) && !causes(row).any(fails))
            .collect();
        let rise = |row: &FunctionDiff| (row.own.difference(), row.total.difference());
        rows.sort_by(|a, b| {
            let (a, b) = (rise(a), rise(b));
            b.0.total_cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
        });
        rows.into_iter()
    }

    fn suspects(&self) -> bool {
        let (own, total) = self.rules.scope.parts();
        let may_have_risen =
            |change: &Change| change.verdict == Verdict::Suspected && change.difference() > 0.0;
        self.functions.iter().any(|row| {
            let has_own = own && may_have_risen(&row.own);
            self.rules.counts(row) && (has_own || total && may_have_risen(&row.total))
        })
    }

    fn is_allowed(&self, change: &Change) -> bool {
        let has_risen =
            |change: &Change| matches!(change.verdict, Verdict::Regressed | Verdict::MayExceed);
        let allowed =
            (self.functions.iter()).filter(|row| self.rules.allows(row) && has_risen(&row.own));
        let taken: f64 = allowed.map(|row| row.own.difference()).sum();
        taken > 0.0 && taken >= change.difference() / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, compare};
    use crate::{Filter, Profile, folded};

    fn runs(parse: u64, check: u64) -> [Profile; 3] {
        [0, 4, 8].map(|more| {
            let text = format!(
                "main;run;parse {}\nmain;check {check}\nmain;a 3000\nmain;b {}\n",
                parse + more,
                2000 - more
            );
            folded::read(text.as_bytes(), "x".as_ref(), &Filter::default()).unwrap()
        })
    }

    fn gate(new: &[Profile], rules: GateRules) -> (Gate, Vec<String>) {
        let options = CompareOptions {
            threshold: 0.05,
            rules,
            ..CompareOptions::default()
        };
        let diff = compare(&runs(1000, 1000), new, &options).unwrap();
        let names = diff.failing().filter_map(|row| row.name.as_deref());
        (diff.gate(), names.map(str::to_owned).collect())
    }

    #[test]
    fn what_counts_can_be_chosen() {
        let new = runs(2200, 1000);
        let with = |only: &[&str], allow: &[&str], scope| {
            let rules = GateRules {
                scope,
                only: only.iter().map(|name| (*name).to_owned()).collect(),
                allow: allow.iter().map(|name| (*name).to_owned()).collect(),
            };
            gate(&new, rules)
        };
        let (answer, names) = with(&[], &[], Scope::All);
        assert_eq!((answer, &*names[0]), (Gate::Regressed, "parse"));
        assert_eq!(with(&[], &[], Scope::Own).1, ["parse"]);
        assert_eq!(with(&[], &[], Scope::Inclusive).1, ["parse"]);
        assert_eq!(with(&["run"], &[], Scope::All).1, ["run"]);
        assert_eq!(with(&[], &[], Scope::Program), (Gate::Regressed, vec![]));
        assert_eq!(with(&[], &["par*"], Scope::All), (Gate::Passed, vec![]));
        assert_eq!(with(&["check"], &[], Scope::Own), (Gate::Passed, vec![]));
        assert_eq!(with(&["parse"], &[], Scope::Own).0, Gate::Regressed);
        let rules = GateRules {
            allow: vec!["parse".into()],
            ..GateRules::default()
        };
        let (answer, names) = gate(&runs(2200, 2000), rules);
        assert_eq!((answer, &*names[0]), (Gate::Regressed, "check"));
    }
}
