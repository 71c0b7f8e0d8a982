//! [`Capability`]: the right that lifts the kernel's limits on perf events.

use std::fmt;
use std::sync::LazyLock;

/// Number of CAP_PERFMON (linux/capability.h).
const PERFMON: u32 = 38;

/// Largest capability number of the running kernel.
const LAST: &str = "/proc/sys/kernel/cap_last_cap";

/// Capability with which a program may record everything. `Display` writes its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Capability {
    /// CAP_PERFMON, since Linux 5.8.
    #[default]
    Perfmon,
    /// CAP_SYS_ADMIN, on older kernels, such as those of RHEL 8. Their setcap(8) and container
    /// managers refuse the name CAP_PERFMON.
    SysAdmin,
}

impl Capability {
    /// Returns the capability of the running kernel with the fewest other rights.
    pub fn of_this_kernel() -> Capability {
        static FOUND: LazyLock<Capability> = LazyLock::new(|| {
            let last = std::fs::read_to_string(LAST).unwrap_or_default();
            Capability::of(last.trim().parse().ok())
        });
        *FOUND
    }

    /// Chooses by the kernel's largest capability number.
    fn of(last: Option<u32>) -> Capability {
        match last {
            Some(0..PERFMON) => Capability::SysAdmin,
            _ => Capability::Perfmon,
        }
    }

    /// Returns its name for `--cap-add` of container managers.
    pub fn for_containers(self) -> &'static str {
        match self {
            Capability::Perfmon => "PERFMON",
            Capability::SysAdmin => "SYS_ADMIN",
        }
    }

    /// Returns its name for setcap(8).
    pub fn for_setcap(self) -> &'static str {
        match self {
            Capability::Perfmon => "cap_perfmon",
            Capability::SysAdmin => "cap_sys_admin",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAP_{}", self.for_containers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_before_5_8_have_only_sys_admin() {
        // 37 in RHEL 8's 4.18 and Ubuntu 20.04's 5.4, 39 in 5.8, 40 since 5.9.
        assert_eq!(Capability::of(Some(37)), Capability::SysAdmin);
        for last in [Some(38), Some(39), Some(40), None] {
            assert_eq!(Capability::of(last), Capability::Perfmon);
        }
        assert_eq!(Capability::SysAdmin.to_string(), "CAP_SYS_ADMIN");
        assert_eq!(Capability::Perfmon.for_setcap(), "cap_perfmon");
    }
}
