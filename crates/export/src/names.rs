//! Sanitized names of a profile.
//!
//! All names come from programs and recordings, so they are untrusted. Writers get them from
//! [`CleanNames`], never from the profile. Every [`CleanName`] passes through [`clean`].

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use rprof_profile::{FileId, FunctionId, ObjectId, Profile};
use serde::Serialize;

use crate::amounts::{bytes, inflected};
use crate::clean::clean;

/// Text without control characters and bidirectional marks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CleanName<'n>(Cow<'n, str>);

impl<'n> CleanName<'n> {
    /// Cleans a name.
    pub fn new(name: &'n str) -> CleanName<'n> {
        CleanName(clean(name))
    }

    /// Returns the text as a `String`.
    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for CleanName<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CleanName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Accessor for the cleaned names of a profile.
#[derive(Clone, Copy, Debug)]
pub struct CleanNames<'p> {
    profile: &'p Profile,
}

impl<'p> CleanNames<'p> {
    /// Creates an accessor.
    pub fn new(profile: &'p Profile) -> CleanNames<'p> {
        CleanNames { profile }
    }

    /// Returns the name of an event, by index in [`Profile::events`].
    pub fn event(self, event: usize) -> CleanName<'p> {
        CleanName::new(&self.profile.events[event].name)
    }

    /// Returns the unit of an event's weights: `ns`, `bytes`, the name of a generic event, `samples`, or
    /// `events`.
    pub fn unit(self, event: usize) -> CleanName<'p> {
        CleanName::new(self.profile.events[event].unit.as_str())
    }

    /// Formats the weight of all samples of an event: `22.766 s`, `1024 page-faults`.
    pub fn weight(self, event: usize) -> String {
        let weight = self.profile.events[event].weight;
        match &*self.unit(event) {
            "ns" => format!("{:.3} s", weight as f64 / 1e9),
            "bytes" => bytes(weight),
            "events" => format!("{weight} {}", inflected(weight, "event")),
            "samples" => format!("{weight} {}", inflected(weight, "sample")),
            unit => format!("{weight} {unit}"),
        }
    }

    /// Returns the name of a thread, by index in [`Profile::comms`].
    pub fn comm(self, comm: u32) -> CleanName<'p> {
        CleanName::new(&self.profile.comms[comm as usize])
    }

    /// Returns the name of a function; `None` if it is unknown.
    pub fn function(self, id: FunctionId) -> Option<CleanName<'p>> {
        let name = self.profile.function(id).name.as_ref();
        name.ok().map(|name| CleanName::new(name))
    }

    /// Returns the name of a function without file and line, for formats with fields for these;
    /// `None` if it is unknown.
    pub fn own_function(self, id: FunctionId) -> Option<CleanName<'p>> {
        match &self.profile.function(id).source {
            Some(source) => Some(CleanName::new(&source.name)),
            None => self.function(id),
        }
    }

    /// Returns the name of an object, usually a path.
    pub fn object(self, id: ObjectId) -> CleanName<'p> {
        CleanName::new(&self.profile.object(id).name)
    }

    /// Returns the file name of an object, without its folder.
    pub fn object_base(self, id: ObjectId) -> CleanName<'p> {
        CleanName::new(self.profile.object(id).base_name())
    }

    /// Formats a source line: `src/main.c:12`.
    pub fn line(self, file: FileId, line: u32) -> CleanName<'p> {
        let file = clean(&self.profile.files[file.0 as usize]);
        CleanName(Cow::Owned(format!("{file}:{line}")))
    }

    /// Iterates over the warnings of the recording and its analysis.
    pub fn warnings(self) -> impl Iterator<Item = CleanName<'p>> {
        self.profile
            .quality
            .warnings
            .iter()
            .map(|w| CleanName::new(w))
    }
}
