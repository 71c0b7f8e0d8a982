//! Simulated programs of many functions with noise: rates of findings, planted or not.

use rprof_testing::Random;

use super::*;

/// Draws an approximately normal deviate (Irwin-Hall).
pub(super) fn normal(random: &mut Random) -> f64 {
    let uniform = |random: &mut Random| f64::from(random.next_u31()) / f64::from(1u32 << 31);
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

struct Program {
    noise: (f64, f64),
    factors: Vec<f64>,
}

const FUNCTIONS: usize = 40;
const SAMPLES: f64 = 10_000.0;

impl Program {
    fn new(own: f64, common: f64) -> Program {
        Program {
            noise: (own, common),
            factors: vec![1.0; FUNCTIONS],
        }
    }

    fn with(mut self, function: usize, factor: f64) -> Program {
        self.factors[function] = factor;
        self
    }

    fn run(&self, random: &mut Random) -> Profile {
        let whole: f64 = (1..=FUNCTIONS).map(|rank| 1.0 / rank as f64).sum();
        let common = (self.noise.1 * normal(random)).exp();
        let stacks: Vec<_> = (0..FUNCTIONS)
            .map(|index| {
                let share = 1.0 / (index + 1) as f64 / whole;
                let noise = (self.noise.0 * normal(random)).exp();
                let expected = SAMPLES * share * self.factors[index] * noise * common;
                // Poisson noise, approximately normal for such large numbers.
                let samples = (expected + expected.sqrt() * normal(random)).round();
                (format!("main;f{index:02}"), samples.max(0.0) as u64)
            })
            .collect();
        profile(&stacks)
    }

    fn runs(&self, count: usize, random: &mut Random) -> Vec<Profile> {
        (0..count).map(|_| self.run(random)).collect()
    }
}

#[test]
fn equal_programs_raise_no_alarm() {
    // 5 % of 200 comparisons plus three standard deviations are 19.
    for (old, new, noise) in [(1, 1, Some(0.02)), (5, 1, None), (3, 3, None), (5, 5, None)] {
        for common in [0.0, 0.03] {
            let mut random = Random::new(1000 + old as u64);
            let program = Program::new(0.02, common);
            let options = CompareOptions {
                noise: noise.map(|own: f64| own.hypot(common)),
                ..CompareOptions::default()
            };
            let alarms = (0..200)
                .filter(|_| {
                    let [a, b] = [old, new].map(|runs| program.runs(runs, &mut random));
                    let diff = compare(&a, &b, &options).unwrap();
                    assert!(diff.is_certain());
                    let whole = diff.whole.verdict.is_marked();
                    whole || diff.functions.iter().any(|row| row.own.verdict.is_marked())
                })
                .count();
            println!("{old} v {new}, {common} in common: {alarms} of 200");
            assert!(alarms <= 19, "{old} v {new}, {common}: {alarms}");
        }
    }
}

#[test]
fn what_is_planted_is_found_and_nothing_else() {
    let mut random = Random::new(7);
    let (plain, slow) = (
        Program::new(0.02, 0.0),
        Program::new(0.02, 0.0).with(2, 1.3),
    );
    let (mut found, mut others) = (0, 0);
    for _ in 0..50 {
        let [old, new] = [&plain, &slow].map(|program| program.runs(5, &mut random));
        let options = CompareOptions {
            threshold: 0.05,
            ..CompareOptions::default()
        };
        let diff = compare(&old, &new, &options).unwrap();
        let named = named(&diff);
        found += usize::from(named.contains(&"f02"));
        others += usize::from(named.iter().any(|name| *name != "f02"));
        if named.contains(&"f02") {
            assert_eq!(row(&diff, "f02").own.verdict, Verdict::Regressed);
            assert_eq!(diff.gate(), Gate::Regressed);
        }
    }
    println!("found {found} of 50, others named in {others}");
    assert!(found >= 45 && others <= 5, "{found} {others}");
}

#[test]
fn swapped_sides_mirror_exactly() {
    let mut random = Random::new(3);
    let changed = Program::new(0.02, 0.01)
        .with(1, 1.3)
        .with(4, 0.6)
        .with(7, 0.0)
        .with(9, 2.0);
    let plain = Program::new(0.02, 0.01);
    for (old, new) in [(1, 1), (3, 2), (5, 5)] {
        let [a, b] = [plain.runs(old, &mut random), changed.runs(new, &mut random)];
        let options = CompareOptions::default();
        let there = compare(&a, &b, &options).unwrap();
        let back = compare(&b, &a, &options).unwrap();
        let mirrored = |verdict| match verdict {
            Verdict::Regressed => Verdict::Improved,
            Verdict::Improved => Verdict::Regressed,
            same => same,
        };
        assert!(old == 1 || !named(&there).is_empty());
        assert_eq!(there.functions.len(), back.functions.len());
        for (one, other) in there.functions.iter().zip(&back.functions) {
            assert_eq!(one.name, other.name);
            for (one, other) in [(&one.own, &other.own), (&one.total, &other.total)] {
                assert_eq!((one.old, one.new), (other.new, other.old));
                assert_eq!(mirrored(one.verdict), other.verdict);
                assert_eq!(one.difference(), -other.difference());
                assert_eq!((one.p, one.visible), (other.p, other.visible));
            }
        }
        assert_eq!(mirrored(there.whole.verdict), back.whole.verdict);
    }
}

#[test]
fn a_uniform_slowdown_names_no_function() {
    let mut random = Random::new(11);
    let plain = Program::new(0.01, 0.0);
    let slow = Program {
        noise: (0.01, 0.0),
        factors: vec![1.25; FUNCTIONS],
    };
    for _ in 0..20 {
        let [old, new] = [&plain, &slow].map(|program| program.runs(4, &mut random));
        let diff = compare(&old, &new, &CompareOptions::default()).unwrap();
        assert_eq!((diff.outcome, named(&diff).len()), (Outcome::Uniform, 0));
        assert_eq!(diff.whole.verdict, Verdict::Regressed);
        assert_eq!(diff.gate(), Gate::Inconclusive);
        let paired = CompareOptions {
            design: Design::Paired,
            ..CompareOptions::default()
        };
        let diff = compare(&old, &new, &paired).unwrap();
        assert_eq!(
            (diff.outcome, diff.gate()),
            (Outcome::Uniform, Gate::Regressed)
        );
    }
}
