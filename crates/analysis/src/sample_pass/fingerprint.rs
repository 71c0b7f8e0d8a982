//! Fingerprints of word lists: keyed hashes of 96 bits.
//!
//! A million callchains may have hundreds of thousands of distinct caller lists. Comparing them
//! costs cache misses, so a hash alone identifies a list, as in git. With 96 bits, a chance
//! collision is negligible (ten million lists: once in 10^15 recordings). The keys are random in
//! each process, so a crafted recording cannot cause collisions.

use std::hash::{BuildHasher, RandomState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListFingerprint {
    pub(crate) hash: u64,
    pub(crate) hash_hi: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FingerprintKeys {
    keys: [u64; 5],
}

/// Folds both halves of the product: every bit depends on all bits of `a` and `b`.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl FingerprintKeys {
    pub(crate) fn new() -> FingerprintKeys {
        let random = RandomState::new();
        FingerprintKeys {
            keys: [0, 1, 2, 3, 4].map(|n: u64| random.hash_one(n)),
        }
    }

    /// Returns a list's fingerprint. `seed` acts as another word.
    #[inline]
    pub(crate) fn of(&self, seed: u64, mut words: impl Iterator<Item = u64>) -> ListFingerprint {
        let [a, b, c, d, e] = self.keys;
        // The lanes mix each pair of words with different keys.
        let (mut x, mut y) = (mix(seed ^ a, b), mix(seed ^ c, a));
        let mut len = 0u64;
        while let Some(first) = words.next() {
            // Separates an odd list from the same list with a 0 appended.
            let (second, n) = match words.next() {
                Some(word) => (word, 2),
                None => (0, 1),
            };
            x = mix(x ^ first, second ^ d);
            y = mix(y ^ second, first ^ e).wrapping_add(x);
            len += n;
        }
        let y = mix(y ^ len, b ^ e);
        ListFingerprint {
            hash: mix(x ^ len, c ^ y),
            hash_hi: (y >> 16) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn lists_that_differ_a_little_have_other_identities() {
        let all = FingerprintKeys::new();
        let mut lists: Vec<(u64, Vec<u64>)> = vec![(0, vec![]), (1, vec![]), (0, vec![1])];
        for len in 1..20 {
            lists.extend([0, 1].map(|word| (0, vec![word; len])));
            for bit in 0..64 {
                for at in [0, len / 2, len - 1] {
                    let mut list = vec![7; len];
                    list[at] ^= 1 << bit;
                    lists.push((3, list));
                }
            }
        }
        let distinct: HashSet<_> = lists.iter().cloned().collect();
        let of = |(seed, list): &(u64, Vec<u64>)| all.of(*seed, list.iter().copied());
        let hashes: HashSet<u64> = distinct.iter().map(|l| of(l).hash).collect();
        let highs: HashSet<u32> = distinct.iter().map(|l| of(l).hash_hi).collect();
        assert_eq!(hashes.len(), distinct.len());
        assert!(highs.len() + 3 > distinct.len());
        assert_eq!(of(&lists[5]), of(&lists[5].clone()));
    }

    #[test]
    fn all_bits_of_a_hash_are_used() {
        let all = FingerprintKeys::new();
        let mut ones = [0u32; 64];
        for n in 0..4096u64 {
            let hash = all.of(9, [n * 64, 0x7f00_0000_0000 + n].into_iter()).hash;
            for (bit, count) in ones.iter_mut().enumerate() {
                *count += (hash >> bit & 1) as u32;
            }
        }
        // Expected: 2,048 each, with a deviation of 32.
        assert!(ones.iter().all(|n| n.abs_diff(2048) < 256), "{ones:?}");
    }
}
