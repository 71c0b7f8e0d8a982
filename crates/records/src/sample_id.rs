//! The trailer of every record that is not a sample.

/// Fields of `struct sample_id`; `None` where the event's `sample_type` lacks
/// the field, or where `sample_id_all` was off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process in which the record arose.
    pub pid: Option<i32>,
    /// Thread in which the record arose.
    pub tid: Option<i32>,
    /// Nanoseconds of the event's clock.
    pub time: Option<u64>,
    /// Event id (from IDENTIFIER, else from ID).
    pub id: Option<u64>,
    /// Stream id.
    pub stream_id: Option<u64>,
    /// CPU number.
    pub cpu: Option<u32>,
}
