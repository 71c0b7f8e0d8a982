//! How much of a profile is known, and why not the rest.

use std::collections::BTreeMap;

use rprof_symbols::Reason;

use crate::frame::{Function, Object};

/// What became of the stacks of samples with a user side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackTally {
    /// Samples that were recorded with a callchain.
    pub total: u64,
    /// Those that reach a root: a program's or a thread's entry; or that have
    /// nothing but the kernel in them.
    pub complete: u64,
    /// Those that end before.
    pub truncated: u64,
    /// Those that end because an image has no unwind information.
    pub no_unwind_info: u64,
    /// Those that end for another reason.
    pub other: u64,
    /// Of how many it is known how they end, since rprof unwound them; of the others names
    /// and frame pointers tell.
    pub unwound: u64,
}

/// The quality verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Stacks.
    pub stacks: StackTally,
    /// Frames of all samples.
    pub frames: u64,
    /// Those of them that have a name.
    pub named: u64,
    /// The others, by reason.
    pub unnamed: BTreeMap<Reason, u64>,
    /// The objects with most unnamed frames, most first: name, reason, frames.
    pub worst: Vec<(String, Reason, u64)>,
    /// Records lost.
    pub lost: u64,
    /// How often the kernel throttled sampling.
    pub throttled: u64,
    /// What else the user should know, in sentences.
    pub warnings: Vec<String>,
}

impl Quality {
    /// Counts the frames that have a name, and those that have none by reason and object, of how
    /// many samples each function is in.
    pub fn of_frames(functions: &[Function], objects: &[Object], samples: &[u64]) -> Quality {
        let mut quality = Quality::default();
        let seen = functions.iter().zip(samples);
        for (function, count) in seen.filter(|(_, count)| **count > 0) {
            quality.frames += count;
            match &function.name {
                Ok(_) => quality.named += count,
                Err(reason) => {
                    *quality.unnamed.entry(*reason).or_default() += count;
                    let object = &objects[function.object.0 as usize];
                    (quality.worst).push((object.name.to_string(), *reason, *count));
                }
            }
        }
        (quality.worst).sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.cmp(b)));
        quality.worst.truncate(5);
        quality
    }

    /// Share of frames with a name, from 0 to 1; 1 where there are no frames.
    pub fn named_share(&self) -> f64 {
        share(self.named, self.frames)
    }

    /// Share of stacks that reach their root, from 0 to 1; 1 where there are none.
    pub fn complete_share(&self) -> f64 {
        share(self.stacks.complete, self.stacks.total)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 1.0,
        _ => part as f64 / whole as f64,
    }
}
