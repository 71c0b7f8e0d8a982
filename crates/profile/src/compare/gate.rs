//! [`ProfileDiff::gate`]: may a change pass?

use super::{Change, Design, FunctionDiff, Outcome, ProfileDiff, Verdict};
use crate::pattern::matches_name;

/// Answer of a gate: may it pass?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// Nothing that counts takes more.
    Passed,
    /// Something takes more, surely.
    Regressed,
    /// It could not be told.
    Inconclusive,
}

/// Amounts that a gate looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The whole program, and self and total of each function.
    #[default]
    All,
    /// The whole program.
    Program,
    /// Self of each function.
    Own,
    /// Total of each function.
    Inclusive,
}

impl Scope {
    /// Returns whether self and total of functions count.
    fn parts(self) -> (bool, bool) {
        match self {
            Scope::All => (true, true),
            Scope::Program => (false, false),
            Scope::Own => (true, false),
            Scope::Inclusive => (false, true),
        }
    }
}

/// Rules by which a gate decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateRules {
    /// Amounts that count.
    pub scope: Scope,
    /// Functions that count, by [patterns](crate::pattern::matches_name); all if there is none.
    pub only: Vec<String>,
    /// Functions that may take more.
    pub allow: Vec<String>,
}

impl GateRules {
    fn allows(&self, row: &FunctionDiff) -> bool {
        is_any(&self.allow, row)
    }

    /// Returns whether a rise of this function counts.
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
    /// Returns whether a gate lets it pass.
    ///
    /// A uniform slowdown may be the machine's: it counts only where runs were made in turns.
    pub fn gate(&self) -> Gate {
        let is_paired = self.design == Design::Paired;
        let whole = match self.rules.scope {
            Scope::All | Scope::Program if !self.is_allowed(&self.whole) => self.whole.verdict,
            _ => Verdict::Unchanged,
        };
        let named = self.failing().next().is_some();
        match self.outcome {
            Outcome::Same => Gate::Passed,
            _ if !self.is_certain() => Gate::Inconclusive,
            Outcome::Uniform if !is_paired && whole == Verdict::Regressed => Gate::Inconclusive,
            _ if named || whole == Verdict::Regressed => Gate::Regressed,
            _ if whole == Verdict::Inconclusive || self.suspects() => Gate::Inconclusive,
            _ => Gate::Passed,
        }
    }

    /// Returns the functions for which a gate fails, the one that rose most first. Callers whose rise is
    /// [explained](FunctionDiff::explained_by) by another of them are left out.
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

    /// Returns whether a function that counts is suspected to take more.
    fn suspects(&self) -> bool {
        let (own, total) = self.rules.scope.parts();
        let may_have_risen =
            |change: &Change| change.verdict == Verdict::Suspected && change.difference() > 0.0;
        self.functions.iter().any(|row| {
            let has_own = own && may_have_risen(&row.own);
            self.rules.counts(row) && (has_own || total && may_have_risen(&row.total))
        })
    }

    /// Returns whether most of a rise is that of functions which may take more.
    fn is_allowed(&self, change: &Change) -> bool {
        let allowed = (self.functions.iter())
            .filter(|row| self.rules.allows(row) && row.own.verdict == Verdict::Regressed);
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
        // Callers take more because of it, and fail where it does not count.
        assert_eq!(with(&[], &[], Scope::Inclusive).1, ["parse"]);
        assert_eq!(with(&["run"], &[], Scope::All).1, ["run"]);
        assert_eq!(with(&[], &[], Scope::Program), (Gate::Regressed, vec![]));
        // What may take more takes its callers and the program along.
        assert_eq!(with(&[], &["par*"], Scope::All), (Gate::Passed, vec![]));
        assert_eq!(with(&["check"], &[], Scope::Own), (Gate::Passed, vec![]));
        assert_eq!(with(&["parse"], &[], Scope::Own).0, Gate::Regressed);
        // Another function that takes more still fails.
        let rules = GateRules {
            allow: vec!["parse".into()],
            ..GateRules::default()
        };
        let (answer, names) = gate(&runs(2200, 2000), rules);
        assert_eq!((answer, &*names[0]), (Gate::Regressed, "check"));
    }
}
