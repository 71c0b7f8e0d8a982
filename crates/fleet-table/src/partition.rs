//! Path of a file: table, date, hour, and a content-based name.

use chrono::DateTime;
use sha2::{Digest, Sha256};

use crate::{FleetTableError, Table};

/// Length of a partition in seconds.
pub const HOUR: i64 = 3_600;

/// Returns the path of a file below the fleet's folder, with `/` as separator. The folders are
/// table, date and hour (Hive notation, UTC). The name consists of host, start and content hash.
/// Equal content has an equal path, so a duplicate replaces itself.
///
/// `begin` is any time within the hour, in seconds since 1970.
///
/// # Errors
/// The time is outside of the calendar's range.
pub fn path(
    table: Table,
    host: &str,
    begin: i64,
    content: &[u8],
) -> Result<String, FleetTableError> {
    let time = DateTime::from_timestamp(begin, 0).ok_or(FleetTableError::Time(begin))?;
    Ok(format!(
        "{}/date={}/hour={}/{}-{begin}-{}.parquet",
        table.name(),
        time.format("%Y-%m-%d"),
        time.format("%H"),
        digest(host.as_bytes()),
        digest(content),
    ))
}

/// Returns 64 bits of a SHA-256 as hexadecimal digits.
fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_from_time_host_and_content() {
        let path_of =
            |host, content: &[u8]| path(Table::Samples, host, 1_700_000_000, content).unwrap();
        // date -u -d @1700000000; printf a | sha256sum; printf b | sha256sum
        assert_eq!(
            path_of("a", b"b"),
            "samples/date=2023-11-14/hour=22/ca978112ca1bbdca-1700000000-3e23e8160039594a.parquet"
        );
        assert_ne!(path_of("a", b"b"), path_of("a", b"c"));
        assert_ne!(path_of("a", b"b"), path_of("b", b"b"));
    }

    #[test]
    fn names_of_hosts_lead_nowhere() {
        let path = path(Table::Samples, "../../etc/x", 0, b"").unwrap();
        assert!(!path.contains(".."), "{path}");
        assert_eq!(path.matches('/').count(), 3);
    }

    #[test]
    fn times_beyond_all_calendars_are_errors() {
        let error = path(Table::Samples, "a", i64::MAX, b"").unwrap_err();
        assert!(matches!(error, FleetTableError::Time(i64::MAX)));
    }
}
