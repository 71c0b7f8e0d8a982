//! [`Sampling`]: what a sampled allocation stands for.

use std::num::NonZeroU64;
use std::ops::{AddAssign, SubAssign};

/// Sampling of allocations by bytes: points lie on the stream of requested bytes at exponential
/// distances (a Poisson process), and an allocation with at least one point is sampled.
///
/// # Examples
/// ```
/// use rprof_memory::Sampling;
///
/// let sampling = Sampling::new(512 << 10);
/// // Large allocations are always sampled, and stand for themselves.
/// assert_eq!(sampling.stands_for(64 << 20).bytes.round(), f64::from(64 << 20));
/// // One of 8,192 allocations of 64 bytes is sampled, and stands for all of them.
/// assert_eq!(sampling.stands_for(64).count.round(), 8193.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    mean: f64,
}

/// Estimate for allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Requested bytes.
    pub bytes: f64,
    /// Number of allocations.
    pub count: f64,
    /// Number of sampled allocations that the estimate is based on.
    pub samples: u64,
    /// Variance of `bytes`, in square bytes.
    pub variance: f64,
}

impl Sampling {
    /// Creates a sampling with this mean distance of two points in bytes, at least 1.
    pub fn new(mean: u64) -> Sampling {
        Sampling {
            mean: mean.max(1) as f64,
        }
    }

    /// Returns the allocations that a sampled one of this size stands for.
    ///
    /// An allocation of `s` bytes is sampled with the probability `p = 1 - exp(-s / mean)`,
    /// independently of others. So `s / p` is an unbiased estimate (Horvitz and Thompson), and
    /// `s² (1 - p) / p²` an unbiased estimate of its variance.
    ///
    /// A weight of the sampler itself replaces `s / p`.
    pub fn stands_for(self, sampled: impl Into<Sampled>) -> Estimate {
        let Sampled { bytes, weight } = sampled.into();
        let size = bytes as f64;
        if let Some(weight) = weight {
            let bytes = weight.get() as f64;
            return Estimate {
                bytes,
                count: bytes / size.max(1.0),
                samples: 1,
                // Samplers that count points return less than the size now and then.
                variance: bytes * (bytes - size).max(0.0),
            };
        }
        let probability = -(-size / self.mean).exp_m1();
        if probability <= 0.0 {
            return Estimate {
                samples: 1,
                ..Estimate::default()
            };
        }
        let scaled = size / probability;
        Estimate {
            bytes: scaled,
            count: 1.0 / probability,
            samples: 1,
            variance: scaled * scaled * (1.0 - probability),
        }
    }
}

/// Sampled allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Requested bytes.
    pub bytes: u64,
    /// Bytes that the sample stands for, if its sampler computed them; `None` to compute them from
    /// the mean distance of a [`Sampling`].
    pub weight: Option<NonZeroU64>,
}

impl From<u64> for Sampled {
    fn from(bytes: u64) -> Sampled {
        Sampled {
            bytes,
            weight: None,
        }
    }
}

impl Estimate {
    /// Returns the standard error of the bytes.
    pub fn error(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Estimate) {
        self.bytes += other.bytes;
        self.count += other.count;
        self.samples = self.samples.saturating_add(other.samples);
        self.variance += other.variance;
    }
}

impl SubAssign for Estimate {
    fn sub_assign(&mut self, other: Estimate) {
        self.samples = self.samples.saturating_sub(other.samples);
        if self.samples == 0 {
            // No rounding error stays.
            *self = Estimate::default();
            return;
        }
        self.bytes -= other.bytes;
        self.count -= other.count;
        self.variance -= other.variance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random numbers in (0, 1]: SplitMix64.
    fn uniform(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::MIN_POSITIVE
    }

    #[test]
    fn estimates_have_the_stated_error_and_no_bias() {
        let mean = 4096;
        let (sampling, sizes) = (Sampling::new(mean), [8u64, 100, 3000, 4096, 50_000]);
        let (mut state, mut within) = (7, 0);
        let mut sum_of_errors = 0.0;
        for _ in 0..400 {
            let (mut truth, mut estimate) = (0.0, Estimate::default());
            for size in sizes.iter().cycle().take(2000) {
                truth += *size as f64;
                // Sampled if the exponential distance to the next point is within the allocation.
                if -uniform(&mut state).ln() * mean as f64 <= *size as f64 {
                    estimate += sampling.stands_for(*size);
                }
            }
            let errors = (estimate.bytes - truth) / estimate.error();
            sum_of_errors += errors;
            within += usize::from(errors.abs() <= 1.0);
        }
        // 68 % of normal errors are within one standard error, give or take 2.3 %.
        assert!((240..=304).contains(&within), "{within} of 400");
        // The mean of 400 standard normal errors has a standard error of 0.05.
        assert!(sum_of_errors.abs() / 400.0 < 0.2, "{sum_of_errors}");
    }

    #[test]
    fn a_weight_of_the_sampler_is_the_estimate() {
        let weighted = |bytes, weight| {
            let weight = NonZeroU64::new(weight);
            Sampling::new(1).stands_for(Sampled { bytes, weight })
        };
        let one = weighted(64, 512 << 10);
        assert_eq!((one.bytes, one.count), (524_288.0, 8192.0));
        assert!((one.error() / 524_288.0 - 1.0).abs() < 0.001);
        let large = weighted(700_000, 524_288);
        assert_eq!((large.bytes, large.error()), (524_288.0, 0.0));
        for (bytes, weight) in [(0, 1), (0, u64::MAX), (u64::MAX, 1)] {
            let estimate = weighted(bytes, weight);
            assert!(estimate.count.is_finite() && estimate.variance.is_finite());
        }
    }

    #[test]
    fn sizes_of_hostile_programs_give_numbers() {
        for (mean, bytes) in [(0, 0), (1, u64::MAX), (u64::MAX, 1), (512, 0)] {
            let estimate = Sampling::new(mean).stands_for(bytes);
            assert!(estimate.bytes.is_finite() && estimate.variance.is_finite());
            assert!(estimate.count.is_finite());
        }
    }
}
