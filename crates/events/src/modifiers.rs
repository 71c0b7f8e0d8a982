//! Letters behind the name of an event (perf-list(1), "Event modifiers").

use rprof_records::AttrFlags;
use std::fmt;

/// Which sides of the machine an event counts.
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

/// What else letters can say of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Qualifiers {
    /// `G`: in guests. Naming `G` or `H` leaves out the one not named.
    pub guest: bool,
    /// `H`: in the host.
    pub host: bool,
    /// `I`: not when idle.
    pub not_idle: bool,
    /// How many `p`: how little skid the address may have, 0 to 3 (`precise_ip`).
    pub precise: u8,
    /// `P`: as precise as the machine can.
    pub most_precise: bool,
    /// `S`: samples hold the counts of the event's group, whose other events take none.
    pub sample_read: bool,
    /// `D`: the event always has its counter.
    pub pinned: bool,
    /// `e`: the event, or its group, has the PMU for itself.
    pub exclusive: bool,
    /// `W`: a group that may be taken apart when it cannot be opened as one.
    pub weak: bool,
    /// `b`: counted by a BPF program (perf stat only).
    pub bpf: bool,
    /// Whether guests are left out. They are when there are no letters, or `u`, `p` or `H`
    /// without `G`, as in perf.
    pub exclude_guest: bool,
    /// Whether the host is left out.
    pub exclude_host: bool,
}

/// All that letters say, while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letters {
    pub(crate) modifiers: Modifiers,
    pub(crate) qualifiers: Qualifiers,
}

/// What is wrong with letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLetters {
    /// None at all.
    Empty,
    /// This one is none.
    Unknown(char),
    /// This one stands twice, or four times in case of `p`.
    Repeated(char),
}

impl Default for Letters {
    /// No letters: everything but guests, as perf has it.
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
    /// Reads the letters of one event.
    ///
    /// Any letter lets guests in again, unless it is `u`, `p` or `H`: that is what perf does,
    /// whose attrs these are to equal.
    pub(crate) fn parse(letters: &str) -> Result<Letters, BadLetters> {
        let mut read = Letters::default();
        read.qualifiers.exclude_guest = false;
        read.read(letters)?;
        Ok(read)
    }

    /// Adds the letters of a group to those of one of its events.
    pub(crate) fn add(self, letters: &str) -> Result<Letters, BadLetters> {
        let mut sum = self;
        sum.read(letters)?;
        Ok(sum)
    }

    fn read(&mut self, letters: &str) -> Result<(), BadLetters> {
        if letters.is_empty() {
            return Err(BadLetters::Empty);
        }
        let (m, q) = (&mut self.modifiers, &mut self.qualifiers);
        for (at, letter) in letters.char_indices() {
            if letter != 'p' && letters[..at].contains(letter) {
                return Err(BadLetters::Repeated(letter));
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
                'p' if q.precise == 3 => return Err(BadLetters::Repeated('p')),
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
                other => return Err(BadLetters::Unknown(other)),
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

    fn letters(self) -> String {
        let sides = [(self.user, 'u'), (self.kernel, 'k'), (self.hypervisor, 'h')];
        sides
            .iter()
            .filter_map(|(on, c)| on.then_some(*c))
            .collect()
    }
}

impl fmt::Display for Modifiers {
    /// With a colon in front, as `:uk`; nothing where there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.letters() {
            letters if letters.is_empty() => Ok(()),
            letters => write!(f, ":{letters}"),
        }
    }
}

impl Qualifiers {
    /// `precise_ip` to begin with: 3 for `P`.
    pub fn precise_ip(self) -> u8 {
        match self.most_precise {
            true => 3,
            false => self.precise.min(3),
        }
    }

    /// The bits that say the same to the kernel, `precise_ip` among them.
    /// Pinned and exclusive are for the leader of a group alone, and not here.
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

/// All letters, the sides first.
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
    fn guests_and_hosts() {
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
    fn precision() {
        let two = AttrFlags::PRECISE_IP_2 | AttrFlags::EXCLUDE_GUEST;
        assert_eq!(flags("pp"), two);
        assert_eq!(
            flags("P"),
            AttrFlags::PRECISE_IP_1 | AttrFlags::PRECISE_IP_2
        );
        assert_eq!(Letters::parse("pppp"), Err(BadLetters::Repeated('p')));
        assert_eq!(Letters::parse("pup").unwrap().qualifiers.precise, 2);
    }

    #[test]
    fn wrong_letters() {
        assert_eq!(Letters::parse(""), Err(BadLetters::Empty));
        assert_eq!(Letters::parse("uu"), Err(BadLetters::Repeated('u')));
        assert_eq!(Letters::parse("uq"), Err(BadLetters::Unknown('q')));
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
