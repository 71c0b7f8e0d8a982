//! [`FrameRanks`]: order of a profile's frames.

use rprof_profile::{Frame, FrameAddress, FrameId, Profile};

/// Frames of a profile, sorted by object, address, inline depth and name.
pub(crate) struct FrameRanks<'p> {
    profile: &'p Profile,
    sorted: Vec<FrameId>,
    /// Rank of each frame in `sorted`, by id; arbitrary for unused frames.
    ranks: Vec<u32>,
}

impl<'p> FrameRanks<'p> {
    pub(crate) fn new(profile: &'p Profile) -> FrameRanks<'p> {
        let mut ranks: Vec<u32> = Vec::new();
        let mut sorted: Vec<FrameId> = Vec::new();
        for entry in &profile.aggregated {
            for frame in profile.frames(entry.stack) {
                let at = frame.index();
                if ranks.len() <= at {
                    ranks.resize(at + 1, u32::MAX);
                }
                if ranks[at] == u32::MAX {
                    ranks[at] = 0;
                    sorted.push(frame);
                }
            }
        }
        let objects = object_ranks(profile);
        let mut keys: Vec<_> = (sorted.iter())
            .map(|id| {
                let frame = profile.frame(*id);
                let object = objects[profile.function(frame.function).object.0 as usize];
                let address = frame.address.map(FrameAddress::lookup_address);
                (object, address, frame.inline_depth, *id)
            })
            .collect();
        // Few comparisons get as far as the names.
        let rest = |id: FrameId| {
            let frame = profile.frame(id);
            let name = profile.function(frame.function).name.as_deref();
            (name.unwrap_or_default(), frame.line, id)
        };
        keys.sort_unstable_by(|a, b| {
            let begin = (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2));
            begin.then_with(|| rest(a.3).cmp(&rest(b.3)))
        });
        sorted.clear();
        sorted.extend(keys.iter().map(|key| key.3));
        for (rank, frame) in (0..).zip(&sorted) {
            ranks[frame.index()] = rank;
        }
        FrameRanks {
            profile,
            sorted,
            ranks,
        }
    }

    pub(crate) fn rank(&self, frame: FrameId) -> u32 {
        self.ranks.get(frame.index()).copied().unwrap_or(u32::MAX)
    }

    pub(crate) fn frame(&self, rank: u32) -> Frame {
        self.profile.frame(self.sorted[rank as usize])
    }
}

/// Ranks the objects by name. Objects with equal names have equal ranks.
fn object_ranks(profile: &Profile) -> Vec<u32> {
    let name = |object: u32| &*profile.objects[object as usize].name;
    let mut sorted: Vec<u32> = (0..profile.objects.len() as u32).collect();
    sorted.sort_unstable_by_key(|object| name(*object));
    let mut ranks = vec![0; sorted.len()];
    let mut rank = 0;
    for pair in sorted.windows(2) {
        rank += u32::from(name(pair[0]) != name(pair[1]));
        ranks[pair[1] as usize] = rank;
    }
    ranks
}
