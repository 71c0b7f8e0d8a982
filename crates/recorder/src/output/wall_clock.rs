//! Wall clock timestamps for file names.

use std::time::{Duration, SystemTime};

#[derive(Clone, Copy, Debug)]
pub(super) struct LocalTime {
    moment: SystemTime,
}

impl LocalTime {
    pub(super) fn now() -> LocalTime {
        LocalTime {
            moment: SystemTime::now(),
        }
    }

    #[must_use]
    pub(super) fn later(self, by: Duration) -> LocalTime {
        LocalTime {
            moment: self.moment + by,
        }
    }

    /// Returns `YYYYMMDDHHMMSSCC` in the user's time zone (`CC`: hundredths of a second), as in
    /// perf's --switch-output.
    pub(super) fn stamp(self) -> String {
        let since = (self.moment.duration_since(SystemTime::UNIX_EPOCH)).unwrap_or_default();
        // The type is the C library's `time_t`.
        let seconds = since.as_secs().try_into().unwrap_or(0);
        // SAFETY: `tm` is plain data, for which zero is a value; both pointers are
        // valid for the call, which writes to the second.
        let tm = unsafe {
            let mut tm: libc::tm = std::mem::zeroed();
            libc::localtime_r(&seconds, &mut tm);
            tm
        };
        format!(
            "{:04}{:02}{:02}{:02}{:02}{:02}{:02}",
            i64::from(tm.tm_year) + 1900,
            tm.tm_mon + 1,
            tm.tm_mday,
            tm.tm_hour,
            tm.tm_min,
            tm.tm_sec,
            since.subsec_millis() / 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_stamp_sorts_behind() {
        let now = LocalTime::now();
        let later = now.later(Duration::from_millis(10));
        assert_eq!(now.stamp().len(), 16);
        assert_ne!(now.stamp(), later.stamp());
        let year = LocalTime {
            moment: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        };
        assert!(year.stamp().starts_with("202311"), "{}", year.stamp());
    }
}
