//! Motions whose offset is known.

mod robot;

use super::*;
use robocache_ops::random::Random;
use robocache_ops::time::Stamp;

/// A speed that is irregular: bursts of 0.2 to 1.5 s with pauses between them.
struct Bursts(Vec<[f64; 3]>);

impl Bursts {
    fn new(seed: u64, seconds: f64) -> Self {
        let mut random = Random::new(seed);
        let mut at = 0.0;
        let mut all = Vec::new();
        while at < seconds {
            let length = random.between(0.2, 1.5);
            all.push([at, at + length, random.between(0.3, 1.0)]);
            at += length + random.between(0.1, 1.2);
        }
        Bursts(all)
    }

    fn speed(&self, t: f64) -> f64 {
        let burst = |[from, to, height]: &[f64; 3]| {
            let share = (t - from) / (to - from);
            if (0.0..1.0).contains(&share) {
                height * (std::f64::consts::PI * share).sin().powi(2)
            } else {
                0.0
            }
        };
        self.0.iter().map(burst).sum()
    }

    /// Its mean over a stretch.
    fn mean(&self, from: f64, to: f64) -> f64 {
        let at = |i: i32| self.speed(from + (to - from) * (f64::from(i) + 0.5) / 16.0);
        (0..16).map(at).sum::<f64>() / 16.0
    }
}

#[derive(Clone, Copy)]
struct Sensor {
    hz: f64,
    jitter: f64,
    drops: f64,
    noise: f64,
    /// How far its stamps are ahead of the truth \[ms\].
    skew_ms: f64,
}

const STEADY: Sensor = Sensor { hz: 100.0, jitter: 0.0, drops: 0.0, noise: 0.0, skew_ms: 0.0 };

impl Sensor {
    fn watch(self, seed: u64, seconds: f64, speed: impl Fn(f64, f64) -> f64) -> Vec<Piece> {
        let mut random = Random::new(seed);
        let mut stamps: Vec<f64> = Vec::new();
        for k in 0..(seconds * self.hz) as u32 {
            let jitter = self.jitter * random.between(-0.5, 0.5);
            if random.unit() >= self.drops {
                stamps.push((f64::from(k) + jitter) / self.hz);
            }
        }
        let ns = |t: f64| {
            Stamp::from_nanos(1_795_000_000_000_000_000 + ((t + self.skew_ms / 1e3) * 1e9) as i64)
        };
        let piece = |pair: &[f64]| {
            let speed = speed(pair[0], pair[1]) + self.noise * random.between(-1.0, 1.0).abs();
            Piece { from: ns(pair[0]), to: ns(pair[1]), speed }
        };
        stamps.windows(2).map(piece).collect()
    }
}

fn found(
    reference: Sensor,
    stream: Sensor,
    seed: u64,
    seconds: f64,
) -> Result<Calibration, String> {
    let bursts = Bursts::new(seed, seconds);
    let mean = |from, to| bursts.mean(from, to);
    let one = reference.watch(seed + 100, seconds, mean);
    // Another sensor sees the motion in another way.
    let other = stream.watch(seed + 200, seconds, |from, to| 40.0 * mean(from, to).powf(0.7) + 3.0);
    compare([&one, &other], 500 * NANOS_PER_MS)
}

#[test]
fn offsets_of_both_signs_are_found_at_all_rates() {
    for (seed, (hz, other_hz, skew_ms)) in [
        (500.0, 15.0, 35.0),
        (500.0, 30.0, -80.0),
        (30.0, 500.0, 35.0),
        (200.0, 60.0, 7.0),
        (100.0, 100.0, 0.0),
        (15.0, 15.0, 150.0),
        (500.0, 500.0, -350.0),
    ]
    .into_iter()
    .enumerate()
    {
        let reference = Sensor { hz, ..STEADY };
        let stream = Sensor { hz: other_hz, skew_ms, ..STEADY };
        let result = found(reference, stream, seed as u64, 60.0).unwrap();
        let error = result.offset_ms + skew_ms;
        assert!(error.abs() < 1.0, "{hz} {other_hz}: {result:?}");
        assert!(error.abs() <= 3.0 * result.uncertainty_ms + 0.3, "{result:?}");
        assert!(!result.drifts, "{result:?}");
    }
}

#[test]
fn jitter_drops_and_noise_widen_the_interval_that_holds_the_truth() {
    let mut inside = 0;
    let mut narrow = 0.0;
    let mut wide = 0.0;
    for seed in 0..20 {
        let clean = Sensor { hz: 30.0, skew_ms: 35.0, ..STEADY };
        let reference = Sensor { hz: 100.0, jitter: 0.5, drops: 0.1, noise: 0.3, ..STEADY };
        let rough = Sensor { jitter: 0.6, drops: 0.1, noise: 10.0, ..clean };
        let result = found(reference, rough, seed, 60.0).unwrap();
        let error = (result.offset_ms + 35.0).abs();
        assert!(error < 8.0, "{seed}: {result:?}");
        inside += u32::from(error <= result.uncertainty_ms);
        if seed < 5 {
            wide += result.uncertainty_ms;
            narrow += found(STEADY, clean, seed, 60.0).unwrap().uncertainty_ms;
        }
    }
    assert!(inside >= 16, "{inside} of 20 intervals of 95 % hold the truth");
    assert!(narrow < wide, "{narrow} {wide}");
}

#[test]
fn what_does_not_tell_the_offset_is_refused() {
    let still = STEADY.watch(1, 60.0, |_, _| 2.0);
    let periodic = |hz: f64| {
        move |from: f64, to: f64| 1.0 + (std::f64::consts::TAU * hz * (from + to) / 2.0).sin()
    };
    let bursts = [Bursts::new(1, 60.0), Bursts::new(2, 60.0)];
    let moving =
        bursts.each_ref().map(|bursts| STEADY.watch(2, 60.0, |from, to| bursts.mean(from, to)));
    let shaking = STEADY.watch(3, 60.0, periodic(5.0));
    let short = STEADY.watch(2, 6.0, |from, to| bursts[0].mean(from, to));
    let far = Sensor { skew_ms: 600.0, ..STEADY };
    let far = far.watch(2, 60.0, |from, to| bursts[0].mean(from, to));
    for (pieces, why) in [
        ([&still, &moving[0]], "the reference does not move"),
        ([&moving[0], &still], "the stream does not move"),
        ([&moving[0], &moving[1]], "expected two streams that see the same motion"),
        ([&shaking, &shaking], "expected two streams that see the same motion, or ambiguous"),
        ([&short, &short], "at least 10 s"),
        ([&moving[0], &far], "the end of the search"),
        ([&Vec::new(), &still], "no messages"),
    ] {
        let error = compare([pieces[0], pieces[1]], 500 * NANOS_PER_MS).unwrap_err();
        let expected = why.split(", or ").any(|why| error.contains(why));
        assert!(expected, "{why}: {error}");
    }
}

#[test]
fn motion_that_repeats_within_the_search_is_ambiguous() {
    // Steps of 0.3 s, each as the one before, but for a little.
    let bursts = Bursts::new(5, 60.0);
    let steps = |from: f64, to: f64| {
        let at = f64::midpoint(from, to);
        (std::f64::consts::PI * at / 0.3).sin().powi(2) * (1.0 + 0.1 * bursts.speed(at))
    };
    let pieces = STEADY.watch(1, 60.0, steps);
    let error = compare([&pieces, &pieces], 500 * NANOS_PER_MS).unwrap_err();
    assert!(error.contains("ambiguous") || error.contains("chance"), "{error}");
}

#[test]
fn a_clock_that_drifts_is_told() {
    let bursts = Bursts::new(8, 120.0);
    let one = Sensor { hz: 200.0, ..STEADY }.watch(1, 120.0, |from, to| bursts.mean(from, to));
    let mut other = Sensor { hz: 60.0, ..STEADY }.watch(2, 120.0, |from, to| bursts.mean(from, to));
    let first = other[0].from;
    for piece in &mut other {
        for stamp in [&mut piece.from, &mut piece.to] {
            *stamp = stamp.offset(stamp.since(first) / 5000);
        }
    }
    let result = compare([&one, &other], 500 * NANOS_PER_MS).unwrap();
    assert!(result.drifts, "200 ppm: 24 ms over the recording: {result:?}");
    assert!((result.halves_ms[0] - result.halves_ms[1] - 12.0).abs() < 3.0, "{result:?}");
}

#[test]
fn the_result_is_the_same_in_every_run() {
    let stream = Sensor { hz: 30.0, noise: 5.0, skew_ms: 20.0, ..STEADY };
    let run = || found(STEADY, stream, 3, 30.0).unwrap();
    assert_eq!(run(), run());
}
