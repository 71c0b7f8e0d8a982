//! Pseudo-random numbers.

/// Linear congruential generator of 64 bits, with the constants of Knuth's MMIX.
///
/// Equal seeds give equal numbers on every machine. Not for security.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the upper 31 bits of the next state. The lower bits have short periods.
    pub fn next_u31(&mut self) -> u32 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// Returns a number below `limit`; 0 if `limit` is 0. Limits above 2^31 are never reached.
    pub fn below(&mut self, limit: u64) -> u64 {
        u64::from(self.next_u31()) % limit.max(1)
    }

    /// Returns a random index below `length`.
    ///
    /// # Panics
    /// If `length` is 0.
    pub fn index(&mut self, length: usize) -> usize {
        self.next_u31() as usize % length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let sequence = |seed| {
            let mut random = Random::new(seed);
            [(); 8].map(|()| random.below(1000))
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
        // Computed by hand from the definition: (1 * A + C) >> 33.
        assert_eq!(Random::new(1).next_u31(), 908_834_774);
    }

    #[test]
    fn numbers_stay_below_the_limit_and_spread() {
        let mut random = Random::new(7);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
