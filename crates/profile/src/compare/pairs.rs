//! [`MatchedFunctions`]: matched functions for side-by-side views.

use super::Side;
use super::matching::{Names, Rows};
use crate::frame::FunctionId;
use crate::model::Profile;

/// Functions of two profiles, matched as in [`compare`](super::compare).
///
/// # Examples
/// ```
/// use rprof_profile::compare::{MatchedFunctions, Side};
/// use rprof_profile::{FunctionId, ProfileBuilder, WeightUnit};
///
/// let [old, new] = ["/x/app-old", "/x/app-new"].map(|path| {
///     let mut builder = ProfileBuilder::new();
///     let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
///     let object = builder.intern_object(path);
///     let function = builder.intern_function(Ok("checksum"), object);
///     let thread = builder.intern_thread_name("app");
///     let stack = builder.intern_stack(&[function]);
///     builder.add_samples(event, thread, stack, 1, 7);
///     builder.finish()
/// });
/// let matched = MatchedFunctions::of(&old, &new);
/// let [number, other] = [Side::Old, Side::New].map(|side| matched.number(side, FunctionId(0)));
/// assert!(number.is_some() && number == other);
/// ```
#[derive(Debug)]
pub struct MatchedFunctions {
    rows: Rows,
    of: [Vec<Option<u32>>; 2],
}

impl MatchedFunctions {
    /// Matches the sampled functions of two profiles.
    pub fn of(old: &Profile, new: &Profile) -> MatchedFunctions {
        let profiles = [old, new];
        let mut names = Names::new(false, profiles.into_iter());
        let numbers = profiles.map(|profile| names.add(profile));
        let sampled = profiles.map(sampled_functions);
        let is_on = [0, 1].map(|side| {
            let mut is_on = vec![false; names.len()];
            for (number, is_sampled) in numbers[side].iter().zip(&sampled[side]) {
                is_on[*number as usize] |= is_sampled;
            }
            is_on
        });
        let rows = names.matched([&is_on[0], &is_on[1]]);
        let of = [0, 1].map(|side| {
            let functions = &profiles[side].functions;
            let row_of = rows.of_functions(&numbers[side]);
            (row_of.into_iter().zip(functions).zip(&sampled[side]))
                .map(|((row, function), is_sampled)| {
                    let name = &rows.names.get(row as usize)?.function;
                    // In another build, an address belongs to another function.
                    let is_comparable = name.is_some() || function.name.is_err();
                    (*is_sampled && is_comparable).then_some(row)
                })
                .collect()
        });
        MatchedFunctions { rows, of }
    }

    /// Returns the number shared by matched functions. `None` without samples, and for a located
    /// name (an address) in an image with different builds.
    pub fn number(&self, side: Side, function: FunctionId) -> Option<u32> {
        let of = &self.of[side as usize];
        of.get(function.0 as usize).copied().flatten()
    }

    /// Returns a number's canonical object name, after renames.
    ///
    /// # Panics
    /// If the number does not exist.
    pub fn object(&self, number: u32) -> &str {
        &self.rows.names[number as usize].object
    }
}

fn sampled_functions(profile: &Profile) -> Vec<bool> {
    let mut sampled = vec![false; profile.functions.len()];
    for entry in &profile.aggregated {
        for function in profile.stack(entry.stack) {
            sampled[function.0 as usize] = true;
        }
    }
    sampled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileBuilder, WeightUnit};

    fn profile(path: &str, names: &[&str]) -> Profile {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object(path);
        let thread = builder.intern_thread_name("t");
        for name in names {
            let function = builder.intern_function(Ok(name), object);
            let stack = builder.intern_stack(&[function]);
            builder.add_samples(event, thread, stack, 1, 1);
        }
        builder.intern_function(Ok("never_sampled"), object);
        builder.finish()
    }

    #[test]
    fn functions_are_matched_as_comparisons_match_them() {
        let old = profile("/bin/app-old", &["sum", "gone", "run.isra.0"]);
        let new = profile("/bin/app-new", &["run", "sum", "come"]);
        let matched = MatchedFunctions::of(&old, &new);
        let number = |side, function| matched.number(side, FunctionId(function));
        assert_eq!(number(Side::Old, 0), number(Side::New, 1));
        assert_eq!(number(Side::Old, 2), number(Side::New, 0));
        let all: [u32; 3] = [(Side::Old, 1), (Side::New, 2), (Side::Old, 0)]
            .map(|(side, function)| number(side, function).unwrap());
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
        assert_eq!(all.map(|number| matched.object(number)), ["app-new"; 3]);
        assert_eq!(number(Side::Old, 3), None);
        assert_eq!(number(Side::New, 9), None);
    }
}
