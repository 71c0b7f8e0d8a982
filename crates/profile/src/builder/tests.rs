use super::*;
use crate::frame::FrameAddress;
use crate::views::top::{Keys, TopFunctions, WeighBy};

fn two_frames(mut builder: ProfileBuilder) -> Profile {
    let event = builder.add_event("cycles", WeightUnit::of_event("cycles"));
    let object = builder.intern_object("a");
    let function = builder.intern_function(Ok("f"), object);
    let thread = builder.intern_thread_name("t");
    for (time, address) in [(5, 0x10), (3, 0x20), (4, 0x10)] {
        let frame = builder.intern_frame(Frame {
            address: Some(FrameAddress::InstructionPointer(address)),
            ..Frame::of(function)
        });
        let stack = builder.intern_stack(&[frame]);
        builder.add_sample(ProfileSample {
            time,
            cpu: (time == 4).then_some(2),
            thread,
            stack,
            event,
            weight: time,
        });
    }
    builder.finish()
}

#[test]
fn addresses_are_kept_on_request() {
    let profile = two_frames(ProfileBuilder::new());
    assert_eq!(profile.aggregated.len(), 1);
    let frame = profile.frames(profile.aggregated[0].stack).next().unwrap();
    assert_eq!(profile.frame(frame), Frame::of(FunctionId(0)));
    assert!(!profile.has_addresses());

    let profile = two_frames(ProfileBuilder::with_addresses());
    assert_eq!(profile.aggregated.len(), 2);
    let sums: Vec<_> = (profile.aggregated.iter())
        .map(|entry| {
            let frame = profile.frame(profile.frames(entry.stack).next().unwrap());
            (
                frame.address.unwrap().address(),
                entry.samples,
                entry.weight,
            )
        })
        .collect();
    assert_eq!(sums, [(0x10, 2, 9), (0x20, 1, 3)]);
    assert_eq!(profile.functions.len(), 1);
    assert_eq!(profile.events[0].weight, 12);
}

#[test]
fn inlined_calls_are_told_apart_on_request() {
    for (builder, depths) in [
        (ProfileBuilder::new(), vec![0]),
        (ProfileBuilder::with_inlined(), vec![0, 1]),
    ] {
        let mut builder = builder;
        let object = builder.intern_object("a");
        let [_, function] = ["f", "g"].map(|name| builder.intern_function(Ok(name), object));
        let event = builder.add_event("cycles", WeightUnit::Events);
        let thread = builder.intern_thread_name("t");
        for inline_depth in [0, 2] {
            let frame = builder.intern_frame(Frame {
                inline_depth,
                ..Frame::of(function)
            });
            let stack = builder.intern_stack(&[frame]);
            builder.add_samples(event, thread, stack, 1, 1);
        }
        let profile = builder.finish();
        let stacks = profile.aggregated.iter().map(|entry| entry.stack);
        let frames = stacks.clone().flat_map(|stack| profile.frames(stack));
        let found: Vec<u32> = frames.map(|id| profile.frame(id).inline_depth).collect();
        assert_eq!(found, depths);
        let functions: Vec<_> = stacks.flat_map(|stack| profile.stack(stack)).collect();
        assert_eq!(functions, vec![function; depths.len()]);
    }
}

#[test]
fn columns_are_in_order_of_time() {
    assert!(two_frames(ProfileBuilder::new()).samples.is_none());
    let profile = two_frames(ProfileBuilder::new().columns(true));
    let samples: Vec<_> = (profile.samples.as_ref().unwrap().iter())
        .map(|s| (s.time, s.cpu, s.weight))
        .collect();
    assert_eq!(samples, [(3, None, 3), (4, Some(2), 4), (5, None, 5)]);
    assert_eq!(profile.time, Some((3, 5)));
}

#[test]
fn frames_without_a_name_are_counted_by_reason() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("faults", WeightUnit::Events);
    let object = builder.intern_object("a");
    let named = builder.intern_function(Ok("f"), object);
    let unnamed = builder.intern_function(Err(Reason::Stripped), object);
    let thread = builder.intern_thread_name("t");
    let stack = builder.intern_stack(&[named, unnamed]);
    assert_eq!(stack, builder.intern_stack(&[named, unnamed]));
    builder.add_samples(event, thread, stack, 7, 70);
    let profile = builder.finish();
    let q = &profile.quality;
    assert_eq!((q.frames, q.named), (14, 7));
    assert_eq!(q.unnamed[&Reason::Stripped], 7);
    assert!(profile.has_callchains);
}

fn deep(has_callchains: Option<bool>, samples: &[(u64, u64)]) -> Profile {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cycles", WeightUnit::of_event("cycles"));
    let object = builder.intern_object("a");
    let functions = ["f", "g"].map(|name| builder.intern_function(Ok(name), object));
    let thread = builder.intern_thread_name("t");
    let stack = builder.intern_stack(&functions);
    if let Some(has) = has_callchains {
        builder.set_callchains(has);
    }
    for (samples, weight) in samples {
        builder.add_samples(event, thread, stack, *samples, *weight);
    }
    builder.finish()
}

#[test]
fn callchains_are_there_if_it_was_said_so_else_by_depth() {
    for (declared, expected) in [(None, true), (Some(true), true), (Some(false), false)] {
        assert_eq!(deep(declared, &[(1, 1)]).has_callchains, expected);
    }
}

#[test]
fn sums_beyond_64_bits_stay_at_the_most() {
    let profile = deep(None, &[(u64::MAX, u64::MAX), (2, 2)]);
    let most = (u64::MAX, u64::MAX);
    assert_eq!((profile.events[0].samples, profile.events[0].weight), most);
    let row = TopFunctions::of(&profile, 0, WeighBy::Samples, Keys::FUNCTIONS).rows[0];
    assert_eq!((row.total_samples, row.total_weight), most);
    assert_eq!((profile.quality.frames, profile.quality.named), most);
}

#[test]
fn rows_of_several_stacks_do_not_wrap() {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cycles", WeightUnit::of_event("cycles"));
    let object = builder.intern_object("a");
    let function = builder.intern_function(Ok("f"), object);
    for name in ["t", "u"] {
        let thread = builder.intern_thread_name(name);
        let stack = builder.intern_stack(&[function]);
        builder.add_samples(event, thread, stack, u64::MAX, u64::MAX);
    }
    let profile = builder.finish();
    let top = TopFunctions::of(&profile, event, WeighBy::Period, Keys::FUNCTIONS);
    let row = top.rows[0];
    assert_eq!((row.self_samples, row.self_weight), (u64::MAX, u64::MAX));
    assert_eq!((row.total_samples, top.weight_total), (u64::MAX, u64::MAX));
}

#[test]
fn functions_of_a_stack_are_those_given() {
    for mut builder in [
        ProfileBuilder::new(),
        ProfileBuilder::with_inlined(),
        ProfileBuilder::with_addresses(),
    ] {
        let object = builder.intern_object("/usr/bin/app");
        let functions = ["a", "b", "c", "d"].map(|name| builder.intern_function(Ok(name), object));
        let stack = builder.intern_stack(&functions);
        let profile = builder.finish();
        assert!(profile.stack(stack).eq(functions), "{:?}", profile.frames);
        assert!((profile.frames(stack)).all(|id| profile.frame(id).inline_depth == 0));
    }
}
