//! A slow receiver.

use super::support::*;
use rprof_records::RecordType;
use rprof_sampler::{SessionBuilder, Stream};
use std::io::{Read, Write};
use std::time::Duration;

/// Number of children started in each phase.
const CHILDREN: usize = 100;

fn tight() -> SessionBuilder {
    cpu_clock()
        .period(100_000)
        .ring_bytes(16 << 10)
        .configure(|o| {
            o.drain.batch_bytes = 0;
            o.drain.sample_buffers = 1;
            o.drain.reserve_bytes = Some(0);
            o.drain.idle = Duration::from_millis(20);
        })
}

#[test]
fn samples_are_dropped_and_counted_but_sideband_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let (half, gate) = (fifo(folder.path(), "half"), fifo(folder.path(), "gate"));
    let phase = format!("n=0; while [ $n -lt {CHILDREN} ]; do n=$((n+1)); ( : ); done; {LOOP}");
    let script = format!("{phase}; echo half > \"$HALF\"; read line < \"$GATE\"; {phase}");
    let command = sh(&script).env("HALF", &half).env("GATE", &gate);
    let Some(mut session) = launch(tight(), &command) else {
        return;
    };
    let mut recorded = Recorded::new(session.events());
    session.start().unwrap();
    // No batch is received in the first half.
    std::fs::File::open(&half)
        .unwrap()
        .read_to_string(&mut String::new())
        .unwrap();
    let waiting = session.batches().len();
    // Frees the rings. In the second half, a LOST record precedes the first sample.
    while let Ok(batch) = session.batches().recv_timeout(Duration::from_millis(100)) {
        let bare = batch.bytes.is_empty();
        recorded.add(&batch);
        session.recycle(batch);
        if bare && session.batches().is_empty() {
            break;
        }
    }
    let mut open = std::fs::OpenOptions::new().write(true).open(&gate).unwrap();
    open.write_all(b"go\n").unwrap();
    assert!(session.child_mut().unwrap().wait().unwrap().success());
    let counts = session.stop();
    for batch in session.batches() {
        recorded.add(&batch);
    }
    recorded.counts = counts;

    let lost = recorded.counts.lost_samples();
    let told = recorded.told_lost(Stream::Samples);
    let samples = recorded.of(RecordType::SAMPLE).count();
    let starved: u64 = recorded
        .counts
        .cpus
        .iter()
        .map(|cpu| cpu.drain.starved)
        .sum();
    println!(
        "{samples} samples, {told} told lost, {lost:?} lost; {waiting} batches waited, starved {starved} times"
    );
    assert!(told > 0, "LOST records came");
    assert!(starved > 0);
    assert!(lost.is_none_or(|lost| lost >= told));
    assert_eq!(recorded.counts.lost_sideband().unwrap_or(0), 0);
    assert_eq!(recorded.told_lost(Stream::Sideband), 0);
    let born = recorded.of(RecordType::FORK).count();
    assert_eq!(born, 2 * CHILDREN);
    assert_eq!(recorded.of(RecordType::EXIT).count(), born + 1);
    let unsent: u64 = recorded
        .counts
        .cpus
        .iter()
        .map(|cpu| cpu.drain.unsent_bytes)
        .sum();
    assert_eq!(unsent, 0);
}

#[test]
fn samples_wait_in_the_reserve_for_a_receiver_that_is_late() {
    let lost = |reserve| {
        let builder = cpu_clock()
            .period(100_000)
            .ring_bytes(256 << 10)
            .configure(|o| {
                o.drain.batch_bytes = 0;
                o.drain.sample_buffers = 1;
                o.drain.reserve_bytes = Some(reserve);
            });
        let mut session = launch(builder, &sh(&[LOOP; 8].join("; ")))?;
        session.start().unwrap();
        assert!(session.child_mut().unwrap().wait().unwrap().success());
        session.stop().lost_samples()
    };
    let (Some(without), Some(with)) = (lost(0), lost(64 << 20)) else {
        return;
    };
    println!("{without} lost without a reserve, {with} with one");
    assert!(without > 0 && with < without / 2);
}

#[test]
fn a_receiver_that_never_comes_blocks_nothing() {
    let Some(mut session) = launch(tight(), &sh(LOOP)) else {
        return;
    };
    session.start().unwrap();
    assert!(session.child_mut().unwrap().wait().unwrap().success());
    let counts = session.stop();
    assert!(counts.cpus.iter().all(|cpu| cpu.drain.unsent_bytes == 0));
    // Their ring stayed full, so no LOST record reports these samples.
    let mut recorded = Recorded::new(session.events());
    for batch in session.batches() {
        recorded.add(&batch);
    }
    let told = recorded.told_lost(Stream::Samples);
    if let Some(lost) = counts.lost_samples() {
        println!("{lost} lost, {told} of them told");
        assert!(lost > told);
    }
    drop(session);
}

#[test]
fn a_receiver_that_holds_batches_until_they_are_released_does_not_deadlock() {
    let builder = tight();
    let Some(mut session) = launch(builder, &sh(&format!("{LOOP}; {LOOP}"))) else {
        return;
    };
    let cpus = session.cpus().len();
    let (batches, recycler) = (session.batches().clone(), session.recycler());
    session.start().unwrap();
    let receiving = std::thread::spawn(move || {
        let mut held = Vec::new();
        let mut marks = std::collections::HashMap::new();
        let mut released = 0;
        for batch in batches {
            marks.insert(batch.cpu, batch.watermark);
            held.push(batch);
            if marks.len() < cpus {
                continue;
            }
            let passed = marks.values().copied().min().unwrap();
            for batch in held.extract_if(.., |batch| batch.watermark <= passed) {
                released += usize::from(!batch.bytes.is_empty());
                recycler.recycle(batch);
            }
        }
        (released, held.len())
    });
    assert!(session.child_mut().unwrap().wait().unwrap().success());
    let counts = session.stop();
    let (released, held) = receiving.join().unwrap();
    println!(
        "{released} batches released, lost {:?}",
        counts.lost_samples()
    );
    assert!(released > 1 && held == 0);
}
