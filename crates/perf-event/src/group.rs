//! [`Group`]: events scheduled on the PMU together, with comparable counts.

use crate::builder::Builder;
use crate::counter::CounterError;
use crate::errno::Errno;
use crate::error::OpenEventError;
use crate::fd::PerfFd;
use crate::reading::{ReadError, Reading};
use crate::scaled::Scaled;
use rprof_records::{AttrFlags, ReadFormat};

/// Events that the kernel schedules on the PMU together or not at all. Their counts cover the same
/// time, so ratios are valid.
///
/// ```no_run
/// use rprof_perf_event::{Builder, Group, Software};
///
/// let mut group = Group::open(&Builder::software(Software::TASK_CLOCK))?;
/// let clock = group.leader();
/// let faults = group.add(&Builder::software(Software::PAGE_FAULTS))?;
/// let (_, counted) = group.measure(|| vec![1_u8; 1 << 20])?;
/// if let Some(rate) = counted.ratio(faults, clock) {
///     println!("{} page faults a second", rate * 1e9);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Group {
    members: Vec<PerfFd>,
    format: ReadFormat,
}

/// Event of a [`Group`], by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member(usize);

impl Group {
    /// Opens the leader of a group.
    ///
    /// Adds [`ReadFormat::GROUP`] to its read format, so that one call reads all members. Members
    /// of an inherited leader are read one after another: kernels before 6.12 cannot read inherited
    /// groups.
    ///
    /// # Errors
    /// Returns [`OpenEventError`].
    pub fn open(leader: &Builder) -> Result<Group, OpenEventError> {
        let mut leader = leader.clone();
        let attr = leader.attr_mut();
        if !attr.flags.contains(AttrFlags::INHERIT) {
            attr.read_format |= ReadFormat::GROUP;
        }
        Group::open_as_is(&leader)
    }

    /// Opens the leader of a group with its read format unchanged.
    ///
    /// # Errors
    /// Returns [`OpenEventError`].
    pub fn open_as_is(leader: &Builder) -> Result<Group, OpenEventError> {
        Ok(Group {
            members: vec![leader.open_fd(None)?],
            format: leader.attr().read_format,
        })
    }

    /// Returns the leader.
    pub fn leader(&self) -> Member {
        Member(0)
    }

    /// Adds an event with the leader's read format. It starts and stops with the leader.
    ///
    /// # Errors
    /// Returns [`OpenEventError`]; `EINVAL` also if the group no longer fits on the PMU.
    pub fn add(&mut self, event: &Builder) -> Result<Member, OpenEventError> {
        let mut event = event.clone();
        let attr = event.attr_mut();
        attr.read_format = self.format;
        attr.flags.remove(AttrFlags::DISABLED);
        let member = event.open_fd(self.members.first())?;
        self.members.push(member);
        Ok(Member(self.members.len() - 1))
    }

    /// Returns the number of members, including the leader.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns false, because a group has at least its leader.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns a member's descriptor; `None` if the index is too high.
    pub fn fd(&self, member: Member) -> Option<&PerfFd> {
        self.members.get(member.0)
    }

    /// Enables all members.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn enable(&self) -> Result<(), Errno> {
        self.members[0].enable_group()
    }

    /// Disables all members.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn disable(&self) -> Result<(), Errno> {
        self.members[0].disable_group()
    }

    /// Resets the counts of all members to zero, with the limits of [`PerfFd::reset`].
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn reset(&self) -> Result<(), Errno> {
        self.members[0].reset_group()
    }

    /// Reads all members, even while counting, in one call with [`ReadFormat::GROUP`].
    ///
    /// # Errors
    /// Returns [`ReadError`]; [`ReadError::PinnedWithoutCounter`] is a normal state of a pinned
    /// leader.
    pub fn read(&self) -> Result<GroupReading, ReadError> {
        if !self.format.contains(ReadFormat::GROUP) {
            let readings: Result<Vec<_>, _> = self.members.iter().map(PerfFd::reading).collect();
            return Ok(GroupReading {
                readings: readings?,
            });
        }
        let values = self.members[0].read()?;
        let readings = values.values.iter().map(|value| Reading {
            value: value.value,
            enabled: values.time_enabled,
            running: values.time_running,
            lost: value.lost,
        });
        Ok(GroupReading {
            readings: readings.collect(),
        })
    }

    /// Counts the events and times during `work`. Earlier counts are excluded.
    ///
    /// # Errors
    /// Returns [`CounterError`], without the result of `work`.
    pub fn measure<T>(&self, work: impl FnOnce() -> T) -> Result<(T, GroupReading), CounterError> {
        let before = self.read()?;
        self.enable().map_err(CounterError::Control)?;
        let done = work();
        self.disable().map_err(CounterError::Control)?;
        Ok((done, self.read()?.since(&before)))
    }
}

/// Readings of all members of a [`Group`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReading {
    readings: Vec<Reading>,
}

impl GroupReading {
    /// Returns a member's reading; `None` for a member added later.
    pub fn get(&self, member: Member) -> Option<Reading> {
        self.readings.get(member.0).copied()
    }

    /// Returns a member's extrapolated count; `None` if it never ran.
    pub fn scaled(&self, member: Member) -> Option<Scaled> {
        self.get(member)?.scaled()
    }

    /// Returns the number of `a` events for each `b` event. Exact even if both are scaled: the
    /// members ran for the same time. `None` without `b` events.
    pub fn ratio(&self, a: Member, b: Member) -> Option<f64> {
        let (a, b) = (self.get(a)?.value, self.get(b)?.value);
        (b != 0).then(|| a as f64 / b as f64)
    }

    /// Returns all readings, in member order.
    pub fn all(&self) -> &[Reading] {
        &self.readings
    }

    /// Returns the difference to an earlier reading of the same group.
    #[must_use]
    pub fn since(&self, earlier: &GroupReading) -> GroupReading {
        let none = Reading {
            enabled: Some(0),
            running: Some(0),
            lost: Some(0),
            ..Reading::default()
        };
        let pairs = self.readings.iter().enumerate();
        let readings =
            pairs.map(|(i, reading)| reading.since(earlier.readings.get(i).unwrap_or(&none)));
        GroupReading {
            readings: readings.collect(),
        }
    }
}
