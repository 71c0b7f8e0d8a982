//! [`Modifiers`] and [`Qualifiers`]: letters after the name of an event (perf-list(1), "EVENT
//! MODIFIERS").

use rprof_records::AttrFlags;
use std::fmt;

/// Processor modes of an event.
///
/// Selecting some excludes the others; selecting none includes all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modifiers {
    /// `u`: user mode.
    pub user: bool,
    /// `k`: kernel mode.
    pub kernel: bool,
    /// `h`: the hypervisor.
    pub hypervisor: bool,
}

/// Modifiers of an event other than processor modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Qualifiers {
    /// `G`: in guests. Selecting `G` or `H` alone excludes the other.
    pub guest: bool,
    /// `H`: in the host.
    pub host: bool,
    /// `I`: not when idle.
    pub not_idle: bool,
    /// Number of `p`, 0 to 3: limit on the skid of sampled addresses (`precise_ip`).
    pub precise: u8,
    /// `P`: the machine's highest precision.
    pub most_precise: bool,
    /// `S`: samples of the leader contain the counts of its group, whose other events take no
    /// samples.
    pub sample_read: bool,
    /// `D`: the event always has a counter.
    pub pinned: bool,
    /// `e`: the event, or its group, has exclusive use of the PMU.
    pub exclusive: bool,
    /// `W`: the group may be split if it cannot be opened together.
    pub weak: bool,
    /// `b`: counting by a BPF program, [ignored](crate::Event::ignored_when_sampled) in recordings.
    pub bpf: bool,
    /// True if guests are excluded: without any letter, or with `u`, `p` or `H` and without `G`, as
    /// in perf.
    pub exclude_guest: bool,
    /// True if the host is excluded: with `G` and without `H`.
    pub exclude_host: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letters {
    pub(crate) modifiers: Modifiers,
    pub(crate) qualifiers: Qualifiers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetterError {
    Empty,
    Unknown(char),
    Repeated(char),
}

impl Default for Letters {
    /// Excludes only guests, as in perf.
    fn default() -> Self {
        Letters {
            modifiers: Modifiers::default(),
            qualifiers: Qualifiers {
                exclude_guest: true,
                ..Qualifiers::default()
            },
        }
    }
}

impl Letters {
    /// Parses the letters of one event.
    ///
    /// Any letter except `u`, `p` and `H` includes guests again, as in perf.
    pub(crate) fn parse(letters: &str) -> Result<Letters, LetterError> {
        let mut parsed = Letters::default();
        parsed.qualifiers.exclude_guest = false;
        parsed.apply(letters)?;
        Ok(parsed)
    }

    /// Adds the letters of a group to one of its events.
    pub(crate) fn add(self, letters: &str) -> Result<Letters, LetterError> {
        let mut sum = self;
        sum.apply(letters)?;
        Ok(sum)
    }

    fn apply(&mut self, letters: &str) -> Result<(), LetterError> {
        if letters.is_empty() {
            return Err(LetterError::Empty);
        }
        let (m, q) = (&mut self.modifiers, &mut self.qualifiers);
        for (at, letter) in letters.char_indices() {
            if letter != 'p' && letters[..at].contains(letter) {
                return Err(LetterError::Repeated(letter));
            }
            let names_machine = q.guest || q.host;
            match letter {
                'u' => {
                    m.user = true;
                    q.exclude_guest |= !names_machine;
                }
                'k' => m.kernel = true,
                'h' => m.hypervisor = true,
                'G' | 'H' => {
                    q.guest |= letter == 'G';
                    q.host |= letter == 'H';
                    q.exclude_guest = !q.guest;
                    q.exclude_host = !q.host;
                }
                'I' => q.not_idle = true,
                'p' if q.precise == 3 => return Err(LetterError::Repeated('p')),
                'p' => {
                    q.precise += 1;
                    q.exclude_guest |= !names_machine;
                }
                'P' => q.most_precise = true,
                'S' => q.sample_read = true,
                'D' => q.pinned = true,
                'e' => q.exclusive = true,
                'W' => q.weak = true,
                'b' => q.bpf = true,
                other => return Err(LetterError::Unknown(other)),
            }
        }
        Ok(())
    }
}

impl Modifiers {
    /// `u` alone.
    pub const USER: Modifiers = Modifiers {
        user: true,
        kernel: false,
        hypervisor: false,
    };

    /// Returns true if no mode is selected.
    pub fn is_empty(self) -> bool {
        self == Modifiers::default()
    }

    pub(crate) fn exclude_flags(self) -> AttrFlags {
        let mut flags = AttrFlags::empty();
        if !self.is_empty() {
            flags.set(AttrFlags::EXCLUDE_USER, !self.user);
            flags.set(AttrFlags::EXCLUDE_KERNEL, !self.kernel);
            flags.set(AttrFlags::EXCLUDE_HV, !self.hypervisor);
        }
        flags
    }

    fn letters(self) -> String {
        let modes = [(self.user, 'u'), (self.kernel, 'k'), (self.hypervisor, 'h')];
        modes
            .iter()
            .filter_map(|(on, c)| on.then_some(*c))
            .collect()
    }
}

impl fmt::Display for Modifiers {
    /// Writes a colon and the letters, such as `:uk`; nothing without letters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.letters() {
            letters if letters.is_empty() => Ok(()),
            letters => write!(f, ":{letters}"),
        }
    }
}

impl Qualifiers {
    /// Returns the `precise_ip` to try first, 3 for `P`.
    pub fn precise_ip(self) -> u8 {
        match self.most_precise {
            true => 3,
            false => self.precise.min(3),
        }
    }

    /// Returns the flags of the attr, including `precise_ip`, but without pinned and exclusive,
    /// which only leaders may have.
    pub(crate) fn flags(self) -> AttrFlags {
        let mut flags = AttrFlags::empty();
        flags.set(AttrFlags::EXCLUDE_GUEST, self.exclude_guest);
        flags.set(AttrFlags::EXCLUDE_HOST, self.exclude_host);
        flags.set(AttrFlags::EXCLUDE_IDLE, self.not_idle);
        flags.set(AttrFlags::PRECISE_IP_1, self.precise_ip() & 1 != 0);
        flags.set(AttrFlags::PRECISE_IP_2, self.precise_ip() & 2 != 0);
        flags
    }

    pub(crate) fn letters(self) -> String {
        let mut letters = "p".repeat(usize::from(self.precise.min(3)));
        let further = [
            (self.guest, 'G'),
            (self.host, 'H'),
            (self.not_idle, 'I'),
            (self.most_precise, 'P'),
            (self.sample_read, 'S'),
            (self.pinned, 'D'),
            (self.exclusive, 'e'),
            (self.weak, 'W'),
            (self.bpf, 'b'),
        ];
        letters.extend(further.iter().filter_map(|(on, c)| on.then_some(*c)));
        letters
    }
}

/// Returns all letters, modes first.
pub(crate) fn all_letters(modifiers: Modifiers, qualifiers: Qualifiers) -> String {
    modifiers.letters() + &qualifiers.letters()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> AttrFlags {
        let read = Letters::parse(text).unwrap();
        read.modifiers.exclude_flags() | read.qualifiers.flags()
    }

    #[test]
    fn naming_a_side_leaves_out_the_others() {
        let others = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        assert_eq!(flags("u"), others | AttrFlags::EXCLUDE_GUEST);
        assert_eq!(
            flags("uk"),
            AttrFlags::EXCLUDE_HV | AttrFlags::EXCLUDE_GUEST
        );
        assert_eq!(flags("kh"), AttrFlags::EXCLUDE_USER);
        assert_eq!(Modifiers::default().exclude_flags(), AttrFlags::empty());
    }

    #[test]
    fn naming_guest_or_host_leaves_out_the_other() {
        assert_eq!(flags("G"), AttrFlags::EXCLUDE_HOST);
        assert_eq!(flags("H"), AttrFlags::EXCLUDE_GUEST);
        assert_eq!(flags("GH"), AttrFlags::empty());
        assert_eq!(
            flags("Gp"),
            AttrFlags::EXCLUDE_HOST | AttrFlags::PRECISE_IP_1
        );
        let none = Letters::default();
        assert_eq!(none.qualifiers.flags(), AttrFlags::EXCLUDE_GUEST);
    }

    #[test]
    fn precision_is_the_number_of_p() {
        let two = AttrFlags::PRECISE_IP_2 | AttrFlags::EXCLUDE_GUEST;
        assert_eq!(flags("pp"), two);
        assert_eq!(
            flags("P"),
            AttrFlags::PRECISE_IP_1 | AttrFlags::PRECISE_IP_2
        );
        assert_eq!(Letters::parse("pppp"), Err(LetterError::Repeated('p')));
        assert_eq!(Letters::parse("pup").unwrap().qualifiers.precise, 2);
    }

    #[test]
    fn wrong_letters_are_errors() {
        assert_eq!(Letters::parse(""), Err(LetterError::Empty));
        assert_eq!(Letters::parse("uu"), Err(LetterError::Repeated('u')));
        assert_eq!(Letters::parse("uq"), Err(LetterError::Unknown('q')));
    }

    #[test]
    fn letters_come_back_in_one_order() {
        for (typed, shown) in [
            ("ku", "uk"),
            ("Su", "uS"),
            ("ppkD", "kppD"),
            ("bWePIHG", "GHIPeWb"),
        ] {
            let read = Letters::parse(typed).unwrap();
            assert_eq!(all_letters(read.modifiers, read.qualifiers), shown);
        }
    }
}
