//! AUX traces in a recording: an AUXTRACE_INFO record at the start of each file, and AUXTRACE
//! records for the pieces.
//!
//! perf's decoders define the settings in AUXTRACE_INFO (`tools/perf/arch/*/util/`: `intel-pt.c`,
//! `intel-bts.c`, `arm-spe.c`). They give no conversion between the records' clock and the trace's
//! processor timestamps.

use std::io;
use std::path::Path;

use rprof_events::TraceUnit;
use rprof_events::pmu::{EVENT_SOURCES, Pmu};
use rprof_perfdata::user_records::{Auxtrace, AuxtraceInfo};
use rprof_records::{Endian, EventKind};
use rprof_sampler::TracePiece;

/// Trace bytes per AUXTRACE record: below the 64 KiB limit of a file that is valid at every moment.
/// A multiple of 24 (BTS) and 64 (SPE) bytes cuts no entry.
const RECORD: usize = 298 * 192;

/// Encodes the AUXTRACE_INFO record of a tracing unit whose PMU has type `kind`.
///
/// # Errors
/// None in practice: the record is short.
pub(crate) fn info(unit: TraceUnit, kind: EventKind, by_cpu: bool) -> io::Result<Vec<u8>> {
    let pmus = Pmu::all(Path::new(EVENT_SOURCES));
    let pmu = pmus.iter().find(|pmu| pmu.kind() == kind);
    let mut out = Vec::new();
    let info = AuxtraceInfo {
        kind: unit.auxtrace_kind(),
        settings: settings(unit, kind, pmu, by_cpu),
    };
    info.encode(Endian::NATIVE, &mut out)
        .map_err(io::Error::other)?;
    Ok(out)
}

fn settings(unit: TraceUnit, kind: EventKind, pmu: Option<&Pmu>, by_cpu: bool) -> Vec<u64> {
    let number = u64::from(kind.0);
    // TIME_SHIFT, TIME_MULT, TIME_ZERO, CAP_USER_TIME_ZERO.
    let no_times = [0; 4];
    match unit {
        TraceUnit::IntelPt => {
            let bits = |term: &str| {
                let format = pmu.and_then(|pmu| pmu.format(term))?;
                let most = u64::MAX >> (64 - format.width().clamp(1, 64));
                format.encode(most)
            };
            let bits = |term| bits(term).unwrap_or(0);
            // Context switches: of the target threads (2) or of whole CPUs (3).
            let switches = if by_cpu { 3 } else { 2 };
            let mut settings = vec![number];
            settings.extend(no_times);
            settings.extend([bits("tsc"), bits("noretcomp"), switches]);
            // SNAPSHOT_MODE, PER_CPU_MMAPS.
            settings.extend([0, 1]);
            settings.extend([bits("mtc"), bits("mtc_period")]);
            // TSC_CTC_N, TSC_CTC_D: for time conversion, unused.
            settings.extend([0, 0]);
            // CYC_BIT, MAX_NONTURBO_RATIO, FILTER_STR_LEN.
            settings.extend([bits("cyc"), 0, 0]);
            settings
        }
        TraceUnit::IntelBts => {
            let mut settings = vec![number];
            settings.extend(no_times);
            // SNAPSHOT_MODE.
            settings.push(0);
            settings
        }
        // PMU_TYPE, PER_CPU_MMAPS.
        _ => vec![number, 1],
    }
}

/// Splits a piece into AUXTRACE records, each followed by its payload.
pub(crate) fn records(
    piece: &TracePiece,
    reference: u64,
) -> impl Iterator<Item = io::Result<Vec<u8>>> + '_ {
    let parts = piece.bytes.chunks(RECORD).enumerate();
    parts.map(move |(nth, part)| {
        let mut out = Vec::with_capacity(part.len() + 64);
        let record = Auxtrace {
            size: part.len() as u64,
            offset: piece.offset + (nth * RECORD) as u64,
            reference,
            index: piece.index,
            tid: -1,
            cpu: i32::try_from(piece.cpu).unwrap_or(-1),
        };
        record
            .encode(part, Endian::NATIVE, &mut out)
            .map_err(io::Error::other)?;
        Ok(out)
    })
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
