//! Comparison of two versions of a service, with its hosts as replicates.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use datafusion::arrow::array::Array;
use rprof_fleet_table::Id;
use rprof_profile::Profile;
use rprof_profile::compare::{CompareOptions, ProfileDiff, Work, compare};

use crate::FleetError;
use crate::engine::Fleet;
use crate::filter::Filter;
use crate::names::Names;
use crate::profile::{Detail, Root, Sum, of_sums, sums};
use crate::rows::{integers, text, texts};

/// Maximum number of replicates per side. More hosts are grouped by name hash, so that each
/// replicate has enough samples of rare functions.
pub const REPLICATES: u64 = 32;

/// What amounts are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Per {
    /// The version's total: shows the composition of the work, but no uniform change.
    #[default]
    Share,
    /// Seconds of each host: shows the cost per host, but also reflects load.
    Second,
}

/// Two versions of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Earlier version.
    pub old: String,
    /// Later version.
    pub new: String,
}

impl std::str::FromStr for Versions {
    type Err = String;

    fn from_str(text: &str) -> Result<Versions, String> {
        match text.split_once("..") {
            Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok(Versions {
                old: old.to_owned(),
                new: new.to_owned(),
            }),
            _ => Err("two versions are OLD..NEW".to_owned()),
        }
    }
}

/// Compares two versions of the samples in a filter.
///
/// # Errors
/// The engine fails, or a version has no samples.
pub async fn versions(
    fleet: &Fleet,
    filter: &Filter,
    versions: &Versions,
    per: Per,
    options: &CompareOptions,
) -> Result<ProfileDiff, FleetError> {
    let names = Names::of(fleet, &filter.sql()).await?;
    let mut sides = Vec::new();
    for version in [&versions.old, &versions.new] {
        let filter = Filter {
            version: Some(version.clone()),
            ..filter.clone()
        };
        sides.push(side(fleet, &filter, &names).await?);
    }
    let work = match per {
        Per::Share => Work::Share,
        Per::Second => Work::Seconds,
    };
    let options = CompareOptions {
        work,
        ..options.clone()
    };
    let new = sides.pop().unwrap_or_default();
    let old = sides.pop().unwrap_or_default();
    Ok(compare(&old, &new, &options)?)
}

/// Queries the samples of one version, by group of hosts.
async fn side(fleet: &Fleet, filter: &Filter, names: &Names) -> Result<Vec<Profile>, FleetError> {
    let sums = sums(fleet, filter, Root::Service, Some("host")).await?;
    if sums.is_empty() {
        return Err(crate::profile::no_samples(fleet, filter).await);
    }
    let seconds = seconds(fleet, filter).await?;
    let hosts: BTreeSet<&str> = sums.iter().filter_map(|sum| sum.group.as_deref()).collect();
    let groups = (hosts.len() as u64).min(REPLICATES);
    // Assigns hosts in order of their name hash, so that groups have equal size and no name pattern
    // affects them.
    let mut dealt: Vec<(Id, &str)> = hosts
        .iter()
        .map(|host| (Id::of_image(host), *host))
        .collect();
    dealt.sort_unstable();
    let group_of: HashMap<&str, u64> = (0u64..)
        .zip(&dealt)
        .map(|(turn, (_, host))| (*host, turn % groups.max(1)))
        .collect();
    let mut by_group: BTreeMap<u64, Vec<&Sum>> = BTreeMap::new();
    for sum in &sums {
        let host = sum.group.as_deref().unwrap_or_default();
        by_group
            .entry(group_of.get(host).copied().unwrap_or(0))
            .or_default()
            .push(sum);
    }
    let version = filter.version.as_deref().unwrap_or_default();
    let replicates = by_group.iter().map(|(group, sums)| {
        let mut profile = of_sums(names, sums.iter().copied(), Detail::Functions);
        let members = group_of.iter().filter(|(_, of)| *of == group);
        let time: f64 = members.filter_map(|(host, _)| seconds.get(*host)).sum();
        profile.time = Some((0, (time * 1e9) as u64));
        profile.source = format!("{version}, group {} of {groups}", group + 1).into();
        profile
    });
    Ok(replicates.collect())
}

/// Queries the sampled seconds of each host.
async fn seconds(fleet: &Fleet, filter: &Filter) -> Result<HashMap<String, f64>, FleetError> {
    let query = format!(
        "SELECT host, sum(window_us) AS micros FROM (SELECT DISTINCT host, window_start, window_us FROM samples_files WHERE {}) \
         GROUP BY host",
        filter.sql()
    );
    let mut seconds = HashMap::new();
    for batch in fleet.ask(&query).await? {
        let (hosts, micros) = (texts(&batch, "host")?, integers(&batch, "micros")?);
        for row in 0..batch.num_rows() {
            let host = text(&hosts, row).unwrap_or_default().to_owned();
            seconds.insert(host, micros.value(row) as f64 / 1e6);
        }
    }
    Ok(seconds)
}

/// Returns the two most recent versions of each service with at least two.
///
/// # Errors
/// The engine fails.
pub async fn latest_versions(
    fleet: &Fleet,
    filter: &Filter,
) -> Result<Vec<(String, Versions)>, FleetError> {
    let query = format!(
        "SELECT service, version, min(CAST(window_start AS BIGINT)) AS first FROM samples_files \
         WHERE version IS NOT NULL AND {} GROUP BY 1, 2",
        filter.sql()
    );
    let mut found: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    for batch in fleet.ask(&query).await? {
        let (services, versions) = (texts(&batch, "service")?, texts(&batch, "version")?);
        let first = integers(&batch, "first")?;
        for row in 0..batch.num_rows() {
            if services.is_valid(row) && versions.is_valid(row) {
                let versions_of = found.entry(services.value(row).to_owned()).or_default();
                versions_of.push((first.value(row), versions.value(row).to_owned()));
            }
        }
    }
    let latest = found.into_iter().filter_map(|(service, mut versions)| {
        versions.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| natural(&a.1, &b.1)));
        let (_, new) = versions.pop()?;
        let (_, old) = versions.pop()?;
        Some((service, Versions { old, new }))
    });
    Ok(latest.collect())
}

/// Compares version names numerically, so that 1.10 follows 1.9.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let parts = |text: &str| -> Vec<(u64, String)> {
        let parts = text.split(|c: char| !c.is_ascii_alphanumeric());
        parts
            .map(|part| (part.parse().unwrap_or(u64::MAX), part.to_owned()))
            .collect()
    };
    parts(a).cmp(&parts(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_order_of_their_numbers() {
        let mut versions = vec!["1.10", "1.9", "2.0", "1.9.1"];
        versions.sort_by(|a, b| natural(a, b));
        assert_eq!(versions, ["1.9", "1.9.1", "1.10", "2.0"]);
    }

    #[test]
    fn two_versions_are_named() {
        assert_eq!(
            "1..2".parse(),
            Ok(Versions {
                old: "1".into(),
                new: "2".into()
            })
        );
        assert!("1..".parse::<Versions>().is_err());
        assert!("1".parse::<Versions>().is_err());
    }
}
