//! Callchains from last branch records (`--call-graph lbr`): calls that have not returned,
//! innermost first. They replace the user part.

use rprof_records::{Attr, BranchSampleType, ContextMarker, Sample};

pub(crate) fn has_branch_calls(attr: &Attr) -> bool {
    (attr.branch_sample_type).contains(BranchSampleType::CALL_STACK)
}

/// Returns a sample's callchain, leaf first, with markers. `None` without such records, or without
/// a user part. The recorded callchain then applies.
///
/// Follows perf (`resolve_lbr_callchain_sample` in `util/machine.c`): first the kernel part as
/// recorded, then the target of the last call, then the source of each call.
pub(crate) fn chain(sample: &Sample<'_>, attr: &Attr) -> Option<Vec<u64>> {
    if !has_branch_calls(attr) {
        return None;
    }
    let recorded = sample.callchain()?;
    let kernel = recorded
        .iter()
        .position(|entry| entry == ContextMarker::USER.0)?;
    let branches = sample.branch_stack()?;
    let leaf = branches.iter().next()?.to;
    let mut chain: Vec<u64> = recorded.iter().take(kernel + 1).collect();
    chain.push(leaf);
    chain.extend(branches.iter().map(|branch| branch.from));
    Some(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{
        BranchEntry, BranchFlags, Endian, Misc, RawBytes, RawRecord, SampleFields, SampleLayout,
        SampleType,
    };

    fn chain_of(attr: &Attr, callchain: &[u64], branches: &[(u64, u64)]) -> Option<Vec<u64>> {
        let layout = SampleLayout::new(attr, Endian::NATIVE);
        let fields = SampleFields {
            callchain: callchain.to_vec(),
            branches: (branches.iter())
                .map(|&(from, to)| BranchEntry {
                    from,
                    to,
                    flags: BranchFlags::default(),
                })
                .collect(),
            ..SampleFields::default()
        };
        let mut bytes = Vec::new();
        fields.encode(Misc::USER, &layout, &mut bytes).unwrap();
        let raw = RawRecord::parse(RawBytes::from(&bytes[..]), Endian::NATIVE).unwrap();
        chain(&Sample::parse(raw.body, &layout).unwrap(), attr)
    }

    #[test]
    fn calls_stand_for_the_users_side() {
        let (kernel, user) = (ContextMarker::KERNEL.0, ContextMarker::USER.0);
        let mut attr = Attr {
            sample_type: SampleType::CALLCHAIN | SampleType::BRANCH_STACK,
            branch_sample_type: BranchSampleType::USER | BranchSampleType::CALL_STACK,
            ..Attr::default()
        };
        let recorded = [kernel, 1, 2, user, 3, 4];
        let calls = [(20, 31), (10, 21)];
        let whole = vec![kernel, 1, 2, user, 31, 20, 10];
        assert_eq!(chain_of(&attr, &recorded, &calls), Some(whole));
        assert_eq!(chain_of(&attr, &recorded, &[]), None);
        assert_eq!(chain_of(&attr, &recorded[..3], &calls), None);
        attr.branch_sample_type = BranchSampleType::USER | BranchSampleType::ANY;
        assert_eq!(chain_of(&attr, &recorded, &calls), None);
    }
}
