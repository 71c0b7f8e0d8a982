//! [`Policy`]: delays and time limit of retries.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

/// Delays between attempts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Approximate delay before the first retry. It doubles with each further one.
    pub first: Duration,
    /// Maximum delay, unless the server requests a longer one.
    pub longest: Duration,
    /// Time limit for all attempts of a request.
    pub total: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
            total: Duration::from_secs(120),
        }
    }
}

impl Policy {
    /// Returns the delay before the next attempt, or `None` to give up. `tried` is the number of
    /// attempts so far, and `since` the time since the first. A delay requested by the server is
    /// used as it is. Own delays have a random factor between one half and 1, so that many senders
    /// do not retry at once.
    pub fn wait(&self, tried: u32, since: Duration, asked: Option<Duration>) -> Option<Duration> {
        let wait = asked.unwrap_or_else(|| {
            let doubled = 2u32.saturating_pow(tried.saturating_sub(1));
            let whole = self.first.saturating_mul(doubled).min(self.longest);
            let random = RandomState::new().hash_one(tried) % 512;
            whole / 2 + whole * (random as u32) / 1024
        });
        (since.saturating_add(wait) <= self.total).then_some(wait)
    }
}

/// Parses a `Retry-After` header (RFC 9110, 10.2.3): seconds, or a date.
pub fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn waits_double_up_to_the_longest_and_end_with_the_time() {
        let policy = Policy {
            first: Duration::from_millis(100),
            longest: Duration::from_millis(350),
            total: Duration::from_secs(2),
        };
        for (tried, whole) in [(1, 100), (2, 200), (3, 350), (4, 350), (60, 350)] {
            let wait = policy.wait(tried, Duration::ZERO, None).unwrap();
            let (least, most) = (whole / 2, whole);
            assert!(
                (least..=most).contains(&(wait.as_millis() as u64)),
                "{tried}: {wait:?}"
            );
        }
        let asked = Some(Duration::from_secs(1));
        assert_eq!(policy.wait(1, Duration::ZERO, asked), asked);
        assert_eq!(policy.wait(1, Duration::from_millis(1500), asked), None);
        assert_eq!(policy.wait(1, Duration::from_secs(3), None), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        // The example of RFC 9110, 5.6.7: 784,111,777 s by `date -d`.
        let now = UNIX_EPOCH + Duration::from_secs(784_111_770);
        let of = |text| retry_after(text, now);
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(
            of("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::from_secs(7))
        );
        // A date in the past means now.
        assert_eq!(of("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
        // 951,782,400 s by `date -d`, a leap day.
        assert_eq!(
            retry_after("Tue, 29 Feb 2000 00:00:00 GMT", UNIX_EPOCH),
            Some(Duration::from_secs(951_782_400))
        );
        for bad in [
            "",
            "-1",
            "soon",
            "Sun, 06 anF 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 GMT",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
