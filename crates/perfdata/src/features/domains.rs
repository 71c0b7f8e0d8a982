//! Scheduling domains of each CPU.

use super::{Feature, FeatureSections};

/// Scheduling domains (CPU_DOMAIN_INFO; written from perf 7.0 on).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuDomains {
    /// Version of /proc/schedstat.
    pub schedstat_version: u32,
    /// Highest domain number plus one.
    pub max_domains: u32,
    /// CPUs with their domains.
    pub cpus: Vec<DomainsOfCpu>,
}

/// Scheduling domains that contain one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainsOfCpu {
    /// CPU number, from 0.
    pub cpu: u32,
    /// Scheduling domains, innermost first.
    pub domains: Vec<SchedulingDomain>,
}

/// Set of CPUs between which the scheduler balances load, as in /proc/schedstat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingDomain {
    /// Domain number.
    pub number: u32,
    /// Name, since schedstat version 17.
    pub name: Option<String>,
    /// CPUs as a hexadecimal mask.
    pub mask: String,
    /// CPUs as a list.
    pub cpus: String,
}

/// First schedstat version with domain names.
const WITH_NAMES: u32 = 17;

impl FeatureSections {
    /// Returns the scheduling domains (CPU_DOMAIN_INFO); `None` without the section.
    pub fn cpu_domains(&self) -> Option<CpuDomains> {
        let mut section = self.decoder(Feature::CPU_DOMAIN_INFO)?;
        let (schedstat_version, max_domains) = (section.u32()?, section.u32()?);
        let mut cpus = Vec::new();
        // Padding.
        while section.left() >= 8 {
            cpus.push(DomainsOfCpu {
                cpu: section.u32()?,
                domains: section.list(12, |s| {
                    Some(SchedulingDomain {
                        number: s.u32()?,
                        name: match schedstat_version >= WITH_NAMES {
                            true => Some(s.string()?),
                            false => None,
                        },
                        mask: s.string()?,
                        cpus: s.string()?,
                    })
                })?,
            });
        }
        Some(CpuDomains {
            schedstat_version,
            max_domains,
            cpus,
        })
    }

    /// Sets the scheduling domains.
    pub fn insert_cpu_domains(&mut self, domains: &CpuDomains) {
        self.encode(Feature::CPU_DOMAIN_INFO, |out| {
            out.u32(domains.schedstat_version);
            out.u32(domains.max_domains);
            for cpu in &domains.cpus {
                out.u32(cpu.cpu);
                out.list(&cpu.domains, |out, domain| {
                    out.u32(domain.number);
                    if domains.schedstat_version >= WITH_NAMES {
                        out.string(domain.name.as_deref().unwrap_or_default());
                    }
                    out.string(&domain.mask);
                    out.string(&domain.cpus);
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            for schedstat_version in [15, 17] {
                let domains = CpuDomains {
                    schedstat_version,
                    max_domains: 2,
                    cpus: vec![DomainsOfCpu {
                        cpu: 3,
                        domains: vec![SchedulingDomain {
                            number: 1,
                            name: (schedstat_version >= 17).then(|| "MC".into()),
                            mask: "00ff".into(),
                            cpus: "0-7".into(),
                        }],
                    }],
                };
                f.insert_cpu_domains(&domains);
                assert_eq!(f.cpu_domains().unwrap(), domains);
            }
        });
    }
}
