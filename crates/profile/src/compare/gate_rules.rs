//! [`GateRules`]: which increases fail a gate.

/// Amounts to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The program, and self and total of functions.
    #[default]
    All,
    /// Whole program only.
    Program,
    /// Self of functions.
    Own,
    /// Total of functions.
    Inclusive,
}

impl Scope {
    pub(super) fn parts(self) -> (bool, bool) {
        match self {
            Scope::All => (true, true),
            Scope::Program => (false, false),
            Scope::Own => (true, false),
            Scope::Inclusive => (false, true),
        }
    }
}

/// Selection of the increases that fail a gate: which amounts, and which functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateRules {
    /// Amounts to check.
    pub scope: Scope,
    /// Functions to check, as [patterns](crate::pattern::matches_name); all if empty.
    pub only: Vec<String>,
    /// Functions with permitted increases, as patterns.
    pub allow: Vec<String>,
}
