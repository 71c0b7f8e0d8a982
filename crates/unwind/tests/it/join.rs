//! Joined stacks: what may be taken from memory, and what may not.

use rprof_unwind::{Cause, End, FoundBy, Frame, FrameKind, Root, ThreadStacks};

const SHORT: End = End::Truncated(Cause::StackEnded { address: 0 });
const ROOT: End = End::Root(Root::UndefinedReturnAddress);

/// Frames of these stack pointers and return addresses, innermost first.
fn stack(frames: &[(u64, u64)]) -> Vec<Frame> {
    let mut all = vec![Frame::sampled(0x9999, 0x10)];
    all.extend(frames.iter().map(|&(sp, address)| Frame {
        address,
        sp,
        slot: sp - 8,
        kind: FrameKind::Caller,
        by: FoundBy::Cfi,
    }));
    all
}

fn complete(stacks: &mut ThreadStacks, frames: &mut Vec<Frame>, end: End) -> End {
    stacks.complete(1, frames, end, 100, |_| None)
}

const DEEP: [(u64, u64); 4] = [(0x100, 1), (0x200, 2), (0x300, 3), (0x400, 4)];

#[test]
fn the_rest_is_remembered() {
    let mut stacks = ThreadStacks::new();
    assert_eq!(complete(&mut stacks, &mut stack(&DEEP), ROOT), ROOT);
    let mut frames = stack(&[(0x80, 7), (0x100, 1), (0x200, 2)]);
    let end = complete(&mut stacks, &mut frames, SHORT);
    assert_eq!(end, End::Joined(Root::UndefinedReturnAddress));
    let all: Vec<(u64, u64)> = frames[1..]
        .iter()
        .map(|frame| (frame.sp, frame.address))
        .collect();
    assert_eq!(
        all,
        [(0x80, 7), (0x100, 1), (0x200, 2), (0x300, 3), (0x400, 4)]
    );
    assert_eq!(frames[3].by, FoundBy::Cfi);
    assert_eq!(frames[4].by, FoundBy::Memory);
    // Another thread knows nothing of it.
    let mut other = stack(&[(0x100, 1), (0x200, 2)]);
    assert_eq!(stacks.complete(2, &mut other, SHORT, 100, |_| None), SHORT);
    stacks.forget(1);
    assert_eq!(stacks.remembered_frames(), 0);
}

#[test]
fn slot_and_address_must_agree_twice() {
    for frames in [
        &[(0x200, 2)][..],
        &[(0x101, 1), (0x200, 2)],
        &[(0x100, 9), (0x200, 2)],
        &[(0x100, 1), (0x200, 9)],
        &[(0x100, 1), (0x201, 2)],
        // One level of a recursion further in.
        &[(0x100, 1), (0x180, 2)],
    ] {
        let mut stacks = ThreadStacks::new();
        complete(&mut stacks, &mut stack(&DEEP), ROOT);
        let mut frames = stack(frames);
        let before = frames.clone();
        assert_eq!(
            complete(&mut stacks, &mut frames, SHORT),
            SHORT,
            "{before:?}"
        );
        assert_eq!(frames, before);
    }
    let mut stacks = ThreadStacks::new().agreeing(1);
    complete(&mut stacks, &mut stack(&DEEP), ROOT);
    assert!(complete(&mut stacks, &mut stack(&[(0x200, 2)]), SHORT).is_complete());
}

/// A recursion through one call site: every level has the same return address, and only the
/// stack pointer tells them apart.
#[test]
fn recursion_is_counted_right() {
    let level = |level: u64| (0x1000 * level, 5);
    let deep: Vec<(u64, u64)> = (10..60).map(level).collect();
    let mut stacks = ThreadStacks::new();
    complete(&mut stacks, &mut stack(&deep), ROOT);
    for depth in 1..=48 {
        let mut frames = stack(&(depth..depth + 12).map(level).collect::<Vec<_>>());
        let end = complete(&mut stacks, &mut frames, SHORT);
        assert!(
            end.is_complete() && frames.len() as u64 == 61 - depth,
            "{depth}"
        );
    }
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut stacks = ThreadStacks::new();
    complete(&mut stacks, &mut stack(&DEEP), ROOT);
    // At 0x300 there is another frame now, so those inside of it are not what they were.
    complete(&mut stacks, &mut stack(&[(0x200, 8), (0x300, 9)]), SHORT);
    assert_eq!(stacks.remembered_frames(), 1);
    let mut frames = stack(&[(0x100, 1), (0x200, 2)]);
    assert_eq!(complete(&mut stacks, &mut frames, SHORT), SHORT);
}

#[test]
fn slots_are_verified() {
    let memory = |bad: u64| {
        move |slot: u64| match slot {
            slot if slot == bad => Some(0x77),
            0x2f8 => Some(3 | 0x7f << 48),
            0x3f8 => Some(4),
            _ => None,
        }
    };
    let mut stacks = ThreadStacks::new();
    complete(&mut stacks, &mut stack(&DEEP), ROOT);
    let short = [(0x100, 1), (0x200, 2)];
    assert_eq!(
        stacks.complete(1, &mut stack(&short), SHORT, 100, memory(0x3f8)),
        SHORT
    );
    assert_eq!(
        stacks.complete(1, &mut stack(&short), SHORT, 4, memory(0)),
        SHORT,
        "too long"
    );
    assert!(
        stacks
            .complete(1, &mut stack(&short), SHORT, 100, memory(0))
            .is_complete()
    );
}

#[test]
fn memory_is_bounded() {
    let mut stacks = ThreadStacks::new().max_frames(50);
    for thread in 0..1000 {
        stacks.complete(thread, &mut stack(&DEEP), ROOT, 100, |_| None);
        assert!(stacks.remembered_frames() <= 50);
        let mut frames = stack(&DEEP[..2]);
        assert!(
            stacks
                .complete(thread, &mut frames, SHORT, 100, |_| None)
                .is_complete()
        );
    }
}
