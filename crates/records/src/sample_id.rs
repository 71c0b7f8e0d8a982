//! Trailer of every record except samples.

/// Fields of `struct sample_id`; `None` if the event's `sample_type` lacks the field, or without
/// `sample_id_all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process that caused the record.
    pub pid: Option<i32>,
    /// Thread that caused the record.
    pub tid: Option<i32>,
    /// Nanoseconds of the event's clock.
    pub time: Option<u64>,
    /// Event id (from IDENTIFIER, else from ID).
    pub id: Option<u64>,
    /// Id of the event's instance on one CPU or thread (STREAM_ID).
    pub stream_id: Option<u64>,
    /// Number of the CPU that wrote the record.
    pub cpu: Option<u32>,
}
