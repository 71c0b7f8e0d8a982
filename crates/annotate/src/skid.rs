//! Address precision of events, in words.

use rprof_profile::WeightUnit;

/// Describes how far samples may be from their instruction, by the event's unit and its requested
/// precision (`precise_ip`).
pub fn sentence(unit: &WeightUnit, precision: u8) -> &'static str {
    match (unit, precision) {
        (_, 1..) => "samples are at the instruction itself: the event is precise",
        (WeightUnit::Nanoseconds, _) => {
            "a clock took the samples: each is at the instruction that came next when its interrupt got through, \
             often just behind the slow one; in the kernel, behind what lets interrupts in again"
        }
        _ => {
            "samples may be some instructions late: the event is not precise (`:pp` asks for that, where the processor can)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_counters_and_precise_events_differ() {
        let texts = [
            sentence(&WeightUnit::Nanoseconds, 0),
            sentence(&WeightUnit::of_event("cycles"), 0),
            sentence(&WeightUnit::of_event("cycles"), 2),
        ];
        assert!(
            texts[0].contains("clock") && texts[1].contains("late") && texts[2].contains("precise")
        );
    }
}
