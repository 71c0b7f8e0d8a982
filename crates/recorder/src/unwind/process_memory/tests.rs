use super::*;

fn memories() -> ProcessMemories {
    ProcessMemories::new(Backlog::default())
}

/// Bytes of this process. The reading thread may be preempted for long.
fn retried<T>(memories: &mut ProcessMemories, read: impl Fn(&ProcessMemories) -> Option<T>) -> T {
    let own = Pid(std::process::id().cast_signed());
    for _ in 0..1000 {
        if let Some(read) = read(memories) {
            return read;
        }
        memories.forget(own);
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it is never read");
}

#[test]
fn copies_what_is_there_and_nothing_else() {
    let here: Vec<u64> = (0..100).collect();
    let at = |n: usize| &raw const here[n] as u64;
    let own = Pid(std::process::id().cast_signed());
    let mut memories = memories();
    for n in [0, 99, 3] {
        let copied = retried(&mut memories, |memories| {
            let mut bytes = [0; 8];
            (memories.copy(own, at(n), &mut bytes) == Ok(8)).then_some(bytes)
        });
        assert_eq!(u64::from_le_bytes(copied), n as u64);
    }
    for nowhere in [8, u64::MAX] {
        let copied = retried(&mut memories, |memories| {
            memories.copy(own, nowhere, &mut [0; 8]).ok()
        });
        assert_eq!(copied, 0);
    }
}

/// Outdated pages are read together; some of them share a cache index.
#[test]
fn pages_that_are_read_together_are_not_mixed_up() {
    let here: Vec<u64> = (0..1 << 18).collect();
    let own = Pid(std::process::id().cast_signed());
    let mut memories = memories();
    for n in [0, 1 << 9, 1 << 17, 0, (1 << 17) + 1, 3 << 9, 1, 1 << 9] {
        // Later than all reads.
        memories.at(rprof_sampler::monotonic_ns());
        let copied = retried(&mut memories, |memories| {
            let mut bytes = [0; 8];
            let copied = memories.copy(own, &raw const here[n] as u64, &mut bytes);
            (copied == Ok(8)).then_some(bytes)
        });
        assert_eq!(u64::from_le_bytes(copied), n as u64);
    }
}

#[test]
fn what_is_not_read_in_time_is_not_taken_for_nothing() {
    let nothing = Rate {
        most: 0,
        a_second: 0,
    };
    let impatient = Patience {
        of_user: nothing,
        ..PATIENCE
    };
    let memories = ProcessMemories::with_patience(Backlog::default(), impatient);
    let own = Pid(std::process::id().cast_signed());
    let here = 7_u64;
    for _ in 0..2 {
        let copied = memories.copy(own, &raw const here as u64, &mut [0; 8]);
        assert_eq!(copied, Err(NotInTime));
    }
    assert_eq!(memories.refused(), 2);
}

#[test]
fn stacks_are_read_up_to_a_bound() {
    let here: Vec<u64> = (0..1 << 19).collect();
    let at = |n: usize| &raw const here[n] as u64;
    let mut memories = memories();
    let own = Pid(std::process::id().cast_signed());
    for n in [0, 1, 9_999, 4, 5_000] {
        let read = |memories: &ProcessMemories| memories.stack(own)?.read_u64(at(n));
        assert_eq!(retried(&mut memories, read), n as u64);
    }
    let stack = retried(&mut memories, |memories| memories.stack(own));
    for nowhere in [0, 8, at(1) + 1, u64::MAX, u64::MAX - 7] {
        assert_eq!(stack.read_u64(nowhere), None);
    }
    // Distant pages, and more than the limit.
    let words = |memories: &ProcessMemories| {
        let stack = memories.stack(own)?;
        let far = || (0..1 << 19).step_by(1 << 10);
        stack.prefetch(far().map(at));
        let read = far().filter(|n| stack.read_u64(at(*n)) == Some(*n as u64));
        Some(read.count()).filter(|count| *count > 0)
    };
    assert_eq!(retried(&mut memories, words), MAX_PAGES as usize);
    assert!(memories.stack(Pid(i32::MAX)).is_none());
}

#[test]
fn processes_that_are_not_there_have_none() {
    let mut memories = memories();
    let copied = retried(&mut memories, |memories| {
        memories.copy(Pid(i32::MAX), 0, &mut [0; 8]).ok()
    });
    assert_eq!(copied, 0);
    memories.forget(Pid(i32::MAX));
    assert!(memories.open.borrow().is_empty());
}
