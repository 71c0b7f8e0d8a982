use super::*;

fn memories() -> ProcessMemories {
    ProcessMemories::new(Backlog::default())
}

/// Returns a reader that waits for a user's processes as often as it needs to.
fn endlessly_patient() -> ProcessMemories {
    let endless = Rate {
        most: u64::MAX / 2,
        a_second: 0,
    };
    let patience = Patience {
        of_one: Duration::from_millis(20),
        of_user: endless,
        of_all: endless,
        ..PATIENCE
    };
    ProcessMemories::with_patience(Backlog::default(), patience)
}

/// Makes a thread that reads for the process's user hang until the result is dropped.
fn hang(process: &Process) -> std::sync::mpsc::SyncSender<()> {
    let (end, wait) = std::sync::mpsc::sync_channel(0);
    let hangs = move || wait.recv().is_ok();
    assert!(process.reader.call(process.user, hangs).is_none());
    end
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
            (memories.copy(own, at(n), &mut bytes, false) == Ok(8)).then_some(bytes)
        });
        assert_eq!(u64::from_le_bytes(copied), n as u64);
    }
    for nowhere in [8, u64::MAX] {
        let copied = retried(&mut memories, |memories| {
            memories.copy(own, nowhere, &mut [0; 8], false).ok()
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
            let copied = memories.copy(own, &raw const here[n] as u64, &mut bytes, false);
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
        let copied = memories.copy(own, &raw const here as u64, &mut [0; 8], false);
        assert_eq!(copied, Err(NotInTime));
    }
    assert_eq!(memories.refused(), 2);
}

#[test]
fn code_that_timed_out_is_read_for_the_next_sample_of_the_backlog() {
    let mut memories = endlessly_patient();
    let own = Pid(std::process::id().cast_signed());
    let here = 7_u64;
    let copy = |memories: &ProcessMemories| {
        let mut bytes = [0; 8];
        let copied = memories
            .copy(own, &raw const here as u64, &mut bytes, false)
            .ok()?;
        (copied == 8).then(|| u64::from_le_bytes(bytes))
    };
    let process = retried(&mut memories, |memories| memories.of(own).ok().flatten());
    let ends = [hang(&process), hang(&process)];
    assert_eq!(copy(&memories), None, "two threads of the user hang");
    drop(ends);
    // Each sample is older than all reads.
    let found = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        copy(&memories)
    });
    assert_eq!(found, Some(7));
}

/// The reading thread may wait for a CPU longer than samples can wait for it.
#[test]
fn code_of_files_that_cannot_be_read_again_in_time_serves_for_a_while() {
    let code = memories as *const () as u64;
    let mut memories = endlessly_patient();
    let own = Pid(std::process::id().cast_signed());
    let copy = |memories: &ProcessMemories, is_of_file| {
        let mut bytes = [0; 8];
        let copied = memories.copy(own, code, &mut bytes, is_of_file);
        copied.map(|_| bytes)
    };
    for is_of_file in [true, false] {
        memories.forget(own);
        let first = retried(&mut memories, |memories| copy(memories, is_of_file).ok());
        let process = retried(&mut memories, |memories| memories.of(own).ok().flatten());
        let ends = [hang(&process), hang(&process)];
        let start = code - code % PAGE as u64;
        let read = (memories.code.borrow().iter().flatten())
            .find(|page| page.start == start)
            .map(|page| page.read);
        let limit = read.expect("the page was read") + TRUSTED.1;
        memories.at(limit);
        let again = copy(&memories, is_of_file);
        memories.at(limit + 1);
        let late = copy(&memories, is_of_file);
        assert_eq!(again, is_of_file.then_some(first).ok_or(NotInTime));
        assert_eq!(late, Err(NotInTime), "it may have changed since");
        drop(ends);
    }
}

/// The reads of a busy machine are slow, and many samples need the same code.
#[test]
fn unchanged_code_of_files_is_read_rarely_and_other_code_for_each_sample() {
    let own = Pid(std::process::id().cast_signed());
    let code = memories as *const () as u64;
    for (is_of_file, rounds) in [(true, 1000), (false, 6)] {
        let mut memories = memories();
        let mut until = 0;
        // `retried` forgets pages if a read times out.
        let trusted = (0..rounds).find_map(|_| {
            memories.at(rprof_sampler::monotonic_ns().max(until + 1));
            retried(&mut memories, |memories| {
                (memories.copy(own, code, &mut [0; 8], is_of_file) == Ok(8)).then_some(())
            });
            let pages = memories.code.borrow();
            let page = pages.iter().flatten().find(|page| page.pid == own)?;
            until = page.read + page.trusted;
            (page.trusted > 0).then_some(page.trusted)
        });
        assert_eq!(trusted, is_of_file.then_some(TRUSTED.0));
    }
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
        memories.copy(Pid(i32::MAX), 0, &mut [0; 8], false).ok()
    });
    assert_eq!(copied, 0);
    memories.forget(Pid(i32::MAX));
    assert!(memories.open.borrow().is_empty());
}
