//! [`Learned`]: where the interpreter's compiled code keeps a variable.
//!
//! Compilers differ, so the place is learned from samples: a register or a slot of the native
//! frame's stack, at a fixed distance from its canonical frame address.

use rustc_hash::FxHashMap;

use crate::Stack;

/// Maximum bytes of a native frame that are searched.
const MAX_FRAME: u64 = 2048;

/// Minimum number of observations of a location at a site.
const MIN_VOTES: u32 = 3;

/// Minimum number of observations for a location of all sites, and the maximum number of failures
/// among them, as 1 in this many.
const MIN_EVERYWHERE: u32 = 64;
const FAILURES: u32 = 50;

/// Minimum number of clear observations for the same.
const MIN_CLEAR: u32 = 24;

/// Number of observations after which a location is certain: of all sites, and of one.
const ENOUGH: u32 = 400;
const ENOUGH_AT_SITE: u32 = 32;

/// Maximum number of attempts to observe the location at a site. At some sites memory never agrees.
const MAX_ATTEMPTS: u32 = 512;

/// Maximum number of call sites with own locations.
const MAX_SITES: usize = 4096;

/// Place of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Location {
    /// A register, by DWARF number.
    Register(u8),
    /// Distance in bytes below the canonical frame address.
    Slot(u64),
}

/// State of a native frame, on which locations depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Site {
    /// The sampled instruction is in the frame.
    Running,
    /// The frame made the call at this stated address (SVMA).
    Calling(u64),
}

/// Locations of one variable, by site.
#[derive(Debug, Default)]
pub(super) struct Learned {
    sites: FxHashMap<Site, Votes>,
    everywhere: Votes,
    /// Observations of all sites in which no other location may have the variable.
    clear: Votes,
}

#[derive(Debug, Default)]
struct Votes {
    by_location: FxHashMap<Location, u32>,
    best: Option<(Location, u32)>,
    observations: u32,
    attempts: u32,
}

impl Votes {
    fn add(&mut self, locations: &[Location], enough: u32) {
        if locations.is_empty() || self.observations >= enough {
            return;
        }
        self.observations += 1;
        for location in locations {
            let votes = self.by_location.entry(*location).or_default();
            *votes += 1;
            if self.best.is_none_or(|(_, most)| *votes > most) {
                self.best = Some((*location, *votes));
            }
        }
    }

    fn best(&self) -> Option<Location> {
        let (location, votes) = self.best?;
        // Most observations have the variable at one place.
        (votes >= MIN_VOTES && votes > self.observations / 2).then_some(location)
    }

    fn certain(&self, least: u32) -> Option<Location> {
        let (location, votes) = self.best?;
        let failures = self.observations - votes;
        let is_certain = self.observations >= least && failures <= self.observations / FAILURES;
        is_certain.then_some(location)
    }
}

impl Learned {
    /// Returns true while observations are useful.
    pub(super) fn wants(&self, site: Site) -> bool {
        self.everywhere.observations < ENOUGH
            || match self.sites.get(&site) {
                Some(votes) => votes.observations < ENOUGH_AT_SITE && votes.attempts < MAX_ATTEMPTS,
                None => self.sites.len() < MAX_SITES,
            }
    }

    /// Counts an attempt to observe the location at a site.
    pub(super) fn count_attempt(&mut self, site: Site) {
        if self.sites.len() < MAX_SITES || self.sites.contains_key(&site) {
            let votes = self.sites.entry(site).or_default();
            votes.attempts = votes.attempts.saturating_add(1);
        }
    }

    /// Adds an observation: all locations that have the variable.
    pub(super) fn observe(&mut self, site: Site, locations: &[Location]) {
        self.observe_at(site, locations);
        self.everywhere.add(locations, ENOUGH);
    }

    /// Adds an observation to its site only.
    pub(super) fn observe_at(&mut self, site: Site, locations: &[Location]) {
        if self.sites.len() < MAX_SITES || self.sites.contains_key(&site) {
            let votes = self.sites.entry(site).or_default();
            votes.add(locations, ENOUGH_AT_SITE);
        }
    }

    /// Adds an observation after [`observe`](Self::observe) as a clear one: no other location may
    /// have the variable.
    pub(super) fn observe_clearly(&mut self, locations: &[Location]) {
        self.clear.add(locations, ENOUGH);
    }

    /// Adds an observation of a location that is the same at all sites.
    pub(super) fn observe_everywhere(&mut self, locations: &[Location]) {
        self.everywhere.add(locations, ENOUGH);
    }

    /// Returns true while observations of a location of all sites are useful.
    pub(super) const fn wants_more(&self) -> bool {
        self.everywhere.observations < MIN_EVERYWHERE
    }

    /// Returns the location at a site.
    pub(super) fn at(&self, site: Site) -> Option<Location> {
        self.sites.get(&site)?.best()
    }

    /// Returns the most frequent location over all sites.
    pub(super) fn everywhere(&self) -> Option<Location> {
        self.everywhere.best()
    }

    /// Returns the location at a site, or else the most frequent one.
    pub(super) fn probable(&self, site: Site) -> Option<Location> {
        self.at(site).or_else(|| self.everywhere())
    }

    /// Returns the location that is right nearly always, at any site.
    pub(super) fn certain(&self) -> Option<Location> {
        let everywhere = self.everywhere.certain(MIN_EVERYWHERE);
        everywhere.or_else(|| self.clear.certain(MIN_CLEAR))
    }
}

/// Returns the value at a location in a native frame.
pub(super) fn value(stack: &Stack<'_>, index: usize, location: Location) -> Option<u64> {
    match location {
        Location::Register(number) => stack.frames.get(index)?.registers.get(number),
        Location::Slot(below) => {
            let cfa = stack.frame_address(index)?;
            stack.memory.read_u64(cfa.checked_sub(below)?)
        }
    }
}

/// Returns all known words of a native frame with their locations.
pub(super) fn words(stack: &Stack<'_>, index: usize) -> Vec<(Location, u64)> {
    let Some(frame) = stack.frames.get(index) else {
        return Vec::new();
    };
    let mut words: Vec<(Location, u64)> = (0..32u8)
        .filter_map(|number| Some((Location::Register(number), frame.registers.get(number)?)))
        .collect();
    if let Some(cfa) = stack.frame_address(index) {
        let len = cfa.saturating_sub(frame.frame.sp).min(MAX_FRAME);
        let slots = (8..=len).step_by(8);
        words.extend(slots.filter_map(|below| {
            let word = stack.memory.read_u64(cfa.checked_sub(below)?)?;
            Some((Location::Slot(below), word))
        }));
    }
    words
}
