//! Tests of the losses that [`Arrivals`] guesses for publishers with uneven stamps.

use super::super::*;

/// Messages that each publisher sends.
const SENT: usize = 6000;

/// Numbers that look random and are the same on every run.
struct Noise(u64);

impl Noise {
    /// Between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About a normal distribution of variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }
}

/// When a publisher sends each of its messages, in periods.
#[derive(Clone, Copy)]
enum Publisher {
    /// A timer that is late or early by this much, as a standard deviation.
    Timer(f64),
    /// A timer that is punctual for a third of the messages, and like `Timer` from then on.
    Worse(f64),
    /// A loop that sleeps for a period, give or take this much: it does not make up for it.
    Sleep(f64),
    /// A timer that stops now and then (`often`, of each message) for about `long`, and then sends
    /// what it owes, a message every `fast`.
    Stalls { often: f64, long: f64, fast: f64 },
}

impl Publisher {
    fn stamps(self) -> Vec<f64> {
        let mut noise = Noise(7);
        let mut newest = 0.0f64;
        let mut stamp = |k: usize| {
            let due = k as f64;
            let (due, least) = match self {
                Publisher::Worse(_) if k < SENT / 3 => (due, 0.01),
                Publisher::Timer(jitter) | Publisher::Worse(jitter) => {
                    (due + jitter * noise.normal(), 0.01)
                }
                Publisher::Sleep(jitter) => (newest + 1.0 + jitter * noise.normal(), 0.05),
                Publisher::Stalls { often, long, fast } => {
                    let stall = noise.uniform() < often;
                    let stall = if stall { long * (0.5 + noise.uniform()) } else { 0.0 };
                    (due + 0.1 * noise.exponential() + stall, fast)
                }
            };
            newest = due.max(newest + least);
            newest
        };
        (0..SENT).map(&mut stamp).collect()
    }
}

/// Which messages are lost.
#[derive(Clone, Copy)]
enum Loss {
    None,
    /// Seven.
    Few,
    /// This share of all.
    Share(f64),
    /// Twenty of five hundred.
    Bursts,
}

impl Loss {
    fn takes(self, k: usize, noise: &mut Noise) -> bool {
        let lost = match self {
            Loss::None => false,
            Loss::Few => k % 800 == 350,
            Loss::Share(share) => noise.uniform() < share,
            Loss::Bursts => k % 500 < 20,
        };
        // The period must be known before, and messages must follow.
        lost && (200..SENT - 200).contains(&k)
    }
}

/// Returns how many messages were lost, and how many are guessed to be.
fn lost_and_guessed(publisher: Publisher, loss: Loss, period_ms: f64) -> (u64, u64) {
    let mut arrivals = Arrivals::new(Duration::ZERO);
    let mut noise = Noise(99);
    let mut lost = 0;
    for (k, periods) in publisher.stamps().into_iter().enumerate() {
        if loss.takes(k, &mut noise) {
            lost += 1;
            continue;
        }
        let ns = (periods * period_ms * 1e6) as i64;
        let at = Duration::from_nanos(ns.max(0) as u64);
        arrivals.note(at, Epoch::default(), Stamp::from_nanos(1_795_000_000_000_000_000 + ns));
    }
    (lost, arrivals.missing())
}

/// No loss, seven of 6000 messages, 1 %, 10 %, 50 %, and twenty of five hundred.
const LOSSES: [Loss; 6] =
    [Loss::None, Loss::Few, Loss::Share(0.01), Loss::Share(0.1), Loss::Share(0.5), Loss::Bursts];

/// Counts of lost messages and of guessed ones for each loss of [`LOSSES`], at 200 Hz and at 30 Hz. Prints a row of a
/// table.
fn row(name: &str, publisher: Publisher) -> Vec<(usize, u64, u64)> {
    let mut all = Vec::new();
    for (rate, period_ms) in [("200 Hz", 5.0), ("30 Hz", 33.333)] {
        let guesses = LOSSES.map(|loss| lost_and_guessed(publisher, loss, period_ms));
        println!("{name}, {rate}: {guesses:?}");
        all.extend(guesses.into_iter().enumerate().map(|(at, (lost, guess))| (at, lost, guess)));
    }
    all
}

#[test]
fn a_guess_is_near_what_uneven_publishers_lost() {
    let timer = Publisher::Timer;
    let sleep = Publisher::Sleep;
    let stalls = |often, long, fast| Publisher::Stalls { often, long, fast };
    // The most that a guess may differ from what was lost, by loss.
    let cases = [
        ("timer, no jitter", timer(0.0), [0; 6]),
        ("timer, jitter 5 %", timer(0.05), [0; 6]),
        ("timer, jitter 10 %", timer(0.1), [2; 6]),
        ("sleep, jitter 5 %", sleep(0.05), [2; 6]),
        ("sleep, jitter 10 %", sleep(0.1), [4; 6]),
        // The period is known from before.
        ("timer, jitter 30 % later", Publisher::Worse(0.3), [40, 40, 40, 40, 1900, 130]),
        ("timer, jitter 50 % later", Publisher::Worse(0.5), [80, 80, 80, 80, 1900, 150]),
        ("stalls of 3 periods, of 1 %", stalls(0.01, 3.0, 0.05), [4, 6, 12, 12, 12, 12]),
        ("stalls of 10 periods, of 2 %", stalls(0.02, 10.0, 0.05), [10, 10, 30, 60, 60, 20]),
        ("stalls of 5 periods, slow after", stalls(0.01, 5.0, 0.6), [20, 20, 20, 20, 450, 30]),
        ("stalls of 20 periods, slow after", stalls(0.003, 20.0, 0.4), [4, 4, 4, 4, 150, 4]),
    ];
    for (name, publisher, most) in cases {
        for (loss, lost, guess) in row(name, publisher) {
            assert!(lost.abs_diff(guess) <= most[loss], "{name}, loss {loss}: {lost} {guess}");
        }
    }
}

/// The stamps mostly have no period then, and nothing counts.
#[test]
fn large_jitter_is_no_loss() {
    let timer = Publisher::Timer;
    let sleep = Publisher::Sleep;
    for (name, publisher) in [
        ("timer, jitter 20 %", timer(0.2)),
        ("timer, jitter 30 %", timer(0.3)),
        ("timer, jitter 50 %", timer(0.5)),
        ("sleep, jitter 20 %", sleep(0.2)),
        ("sleep, jitter 30 %", sleep(0.3)),
    ] {
        for (loss, lost, guess) in row(name, publisher) {
            assert!(guess <= lost + SENT as u64 / 75, "{name}, loss {loss}: {lost} {guess}");
        }
    }
}
