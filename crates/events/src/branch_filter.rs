//! Branch filters, as in `perf record -j`.

use rprof_records::BranchSampleType;

/// Filter names of perf (perf-record(1), `--branch-filter`).
const PARTS: [(&str, BranchSampleType); 18] = [
    ("any", BranchSampleType::ANY),
    ("any_call", BranchSampleType::ANY_CALL),
    ("any_ret", BranchSampleType::ANY_RETURN),
    ("ind_call", BranchSampleType::IND_CALL),
    ("ind_jmp", BranchSampleType::IND_JUMP),
    ("call", BranchSampleType::CALL),
    ("cond", BranchSampleType::COND),
    ("in_tx", BranchSampleType::IN_TX),
    ("no_tx", BranchSampleType::NO_TX),
    ("abort_tx", BranchSampleType::ABORT_TX),
    ("stack", BranchSampleType::CALL_STACK),
    ("save_type", BranchSampleType::TYPE_SAVE),
    ("priv", BranchSampleType::PRIV_SAVE),
    ("counter", BranchSampleType::COUNTERS),
    ("hw_index", BranchSampleType::HW_INDEX),
    ("u", BranchSampleType::USER),
    ("k", BranchSampleType::KERNEL),
    ("hv", BranchSampleType::HV),
];

/// `PERF_SAMPLE_BRANCH_PLM_ALL`.
const MODES: BranchSampleType = BranchSampleType::USER
    .union(BranchSampleType::KERNEL)
    .union(BranchSampleType::HV);

/// Error for an unknown filter name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown branch filter `{part}`; valid filters: {}", branch_filter_names().join(", "))]
pub struct BranchFilterError {
    /// Name as typed.
    pub part: String,
}

/// Returns all filter names.
pub fn branch_filter_names() -> Vec<&'static str> {
    PARTS.iter().map(|(name, _)| *name).collect()
}

/// Parses a filter such as `any_call,u`. A filter with only modes selects any branch in them. A
/// filter without modes uses the modes of its event.
///
/// ```
/// use rprof_events::parse_branch_filter;
/// use rprof_records::BranchSampleType;
///
/// let in_user_mode = BranchSampleType::ANY | BranchSampleType::USER;
/// assert_eq!(parse_branch_filter("u"), Ok(in_user_mode));
/// ```
///
/// # Errors
/// Returns the first unknown name.
pub fn parse_branch_filter(text: &str) -> Result<BranchSampleType, BranchFilterError> {
    let mut filter = BranchSampleType::empty();
    for part in text.split(',').map(str::trim) {
        let known = PARTS.iter().find(|(name, _)| *name == part);
        let unknown = || BranchFilterError {
            part: part.to_owned(),
        };
        filter |= known.ok_or_else(unknown)?.1;
    }
    if MODES.contains(filter) {
        filter |= BranchSampleType::ANY;
    }
    Ok(filter)
}

/// Parses the term `branch_type`, like [`parse_branch_filter`]; `no` means no branches. A value
/// with commas requires quotes: `cycles/branch_type='any_call,u'/`.
pub(crate) fn parse_branch_filter_term(text: &str) -> Result<BranchSampleType, BranchFilterError> {
    match text {
        "no" => Ok(BranchSampleType::empty()),
        text => parse_branch_filter(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_parts() {
        use BranchSampleType as B;
        let of = |text| parse_branch_filter(text);
        assert_eq!(of("any_call,u"), Ok(B::ANY_CALL | B::USER));
        assert_eq!(of("k,hv"), Ok(B::ANY | B::KERNEL | B::HV));
        assert_eq!(of("ind_jmp, save_type"), Ok(B::IND_JUMP | B::TYPE_SAVE));
        for text in ["", "any,", "calls", "USER"] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains("any_call, any_ret"), "{error}");
        }
    }
}
