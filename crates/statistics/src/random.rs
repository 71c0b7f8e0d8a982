//! [`Dice`]: reproducible random numbers; and combinations.

/// Reproducible pseudo-random numbers: SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        (word % limit.max(1) as u64) as usize
    }
}

/// Returns the number of ways to choose `some` of `all` items: 0 if they are too few.
pub fn combinations(all: usize, some: usize) -> f64 {
    let factor = |index: usize| (all - index) as f64 / (index + 1) as f64;
    match some <= all {
        true => (0..some).map(factor).product(),
        false => 0.0,
    }
}
