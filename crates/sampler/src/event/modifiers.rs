//! Letters after the colon of an event name.

use rprof_records::AttrFlags;
use std::fmt;

/// Which sides of the machine an event counts (perf-list(1), "event modifiers").
///
/// Naming one side leaves out those not named; naming none counts all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modifiers {
    /// `u`: user mode.
    pub user: bool,
    /// `k`: kernel mode.
    pub kernel: bool,
    /// `h`: the hypervisor.
    pub hypervisor: bool,
}

impl Modifiers {
    /// `u` alone.
    pub const USER: Modifiers = Modifiers {
        user: true,
        kernel: false,
        hypervisor: false,
    };

    /// Reads letters; the error is the one that is wrong.
    pub(super) fn parse(letters: &str) -> Result<Modifiers, String> {
        if letters.is_empty() {
            return Err(String::new());
        }
        let mut modifiers = Modifiers::default();
        for letter in letters.chars() {
            match letter {
                'u' => modifiers.user = true,
                'k' => modifiers.kernel = true,
                'h' => modifiers.hypervisor = true,
                other => return Err(other.to_string()),
            }
        }
        Ok(modifiers)
    }

    /// Whether no side was named.
    pub fn is_empty(self) -> bool {
        self == Modifiers::default()
    }

    /// The `exclude_*` bits that say the same to the kernel.
    pub fn exclude_flags(self) -> AttrFlags {
        let mut flags = AttrFlags::empty();
        if !self.is_empty() {
            flags.set(AttrFlags::EXCLUDE_USER, !self.user);
            flags.set(AttrFlags::EXCLUDE_KERNEL, !self.kernel);
            flags.set(AttrFlags::EXCLUDE_HV, !self.hypervisor);
        }
        flags
    }
}

impl fmt::Display for Modifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        f.write_str(":")?;
        for (on, letter) in [(self.user, "u"), (self.kernel, "k"), (self.hypervisor, "h")] {
            if on {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_a_side_leaves_out_the_others() {
        let flags = |text| Modifiers::parse(text).unwrap().exclude_flags();
        assert_eq!(
            flags("u"),
            AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV
        );
        assert_eq!(flags("uk"), AttrFlags::EXCLUDE_HV);
        assert_eq!(flags("hku"), AttrFlags::empty());
        assert_eq!(Modifiers::default().exclude_flags(), AttrFlags::empty());
    }
}
