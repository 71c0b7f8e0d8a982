//! Windows on the wall clock, and the share of hosts that samples.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

/// The current window. Its start is a wall-clock time, and its length is monotonic, so that setting
/// the clock does not change the length.
#[derive(Clone, Copy, Debug)]
pub struct OpenWindow {
    /// Start, in microseconds since 1970, UTC.
    pub start: i64,
    begun: Instant,
    /// End time. At the start, this is a multiple of the window length on the wall clock.
    pub end: Instant,
}

impl OpenWindow {
    /// Starts a window now. Windows start and end at multiples of `length`, so the first is
    /// shorter.
    pub fn begin(length: Duration) -> OpenWindow {
        OpenWindow::begin_at(unix_micros(), Instant::now(), length)
    }

    fn begin_at(start: i64, begun: Instant, length: Duration) -> OpenWindow {
        let length = length.as_micros() as i64;
        let mut left = length - start.rem_euclid(length);
        // The timer fired early, or the window would be too short.
        if left < length / 10 {
            left += length;
        }
        OpenWindow {
            start,
            begun,
            end: begun + Duration::from_micros(left.unsigned_abs()),
        }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Returns the wall-clock time, in microseconds since 1970, UTC.
pub fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

/// Returns whether a host samples in the hour of a time (microseconds since 1970), given the share
/// of hosts that samples. A hash of host and hour decides, so each hour selects other hosts without
/// coordination.
pub fn is_sampled(host: &str, micros: i64, share: f64) -> bool {
    let hour = micros.div_euclid(3_600_000_000);
    fraction(&[host.as_bytes(), &hour.to_le_bytes()]) < share
}

/// Returns the delay between the end of a window and its upload. It is constant for a host and at
/// most a fifth of the window length, so that hosts of a fleet do not send at the same time.
pub fn send_delay(host: &str, length: Duration) -> Duration {
    length.mul_f64(0.2 * fraction(&[host.as_bytes(), b"send"]))
}

/// Hashes some parts to a number from 0 to below 1.
fn fraction(parts: &[&[u8]]) -> f64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let bytes = digest.iter().take(8);
    let number = bytes.fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    (number >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_at_full_minutes() {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        let of = |start| OpenWindow::begin_at(start, now, minute).end - now;
        assert_eq!(of(1_700_000_040_000_000), minute);
        assert_eq!(of(1_700_000_050_000_000), Duration::from_secs(50));
        assert_eq!(of(1_700_000_099_998_000), Duration::from_micros(60_002_000));
    }

    #[test]
    fn a_share_of_hosts_samples_and_each_hour_another() {
        let hosts: Vec<String> = (0..2_000).map(|n| format!("web-{n}")).collect();
        let sampled = |hour: i64, share| {
            let hosts = hosts.iter();
            hosts
                .filter(|host| is_sampled(host, hour * 3_600_000_000 + 7, share))
                .count()
        };
        // Mean 200, deviation 13.4.
        for hour in 0..20 {
            assert!((120..=280).contains(&sampled(hour, 0.1)), "{hour}");
        }
        assert_eq!(sampled(1, 1.0), 2_000);
        let hours = (0..1_000i64).filter(|hour| is_sampled("a", hour * 3_600_000_000, 0.5));
        assert!((420..=580).contains(&hours.count()));
        assert_eq!(is_sampled("a", 3_599_999_999, 0.5), is_sampled("a", 0, 0.5));
    }

    #[test]
    fn hosts_send_at_different_times_within_a_fifth() {
        let minute = Duration::from_secs(60);
        let delays: Vec<Duration> = (0..50)
            .map(|n| send_delay(&format!("web-{n}"), minute))
            .collect();
        assert!(delays.iter().all(|delay| *delay < minute / 5));
        let (least, most) = (delays.iter().min(), delays.iter().max());
        assert!(*most.unwrap() - *least.unwrap() > Duration::from_secs(8));
    }
}
