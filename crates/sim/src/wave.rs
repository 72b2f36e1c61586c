//! Sums of sines with whole-nanosecond periods, and bounds of values computed from them.

use robocache_ops::random::Random;
use robocache_ops::time::{NANOS_PER_S, Stamp};
use std::f64::consts::TAU;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

/// `amplitude * sin(tau * t / period + phase)`
#[derive(Clone, Copy, Debug)]
struct Sine {
    amplitude: f64,
    period_ns: i64,
    phase: f64,
}

impl Sine {
    /// Angular frequency \[rad/s\].
    fn omega(&self) -> f64 {
        TAU * NANOS_PER_S as f64 / self.period_ns as f64
    }
}

/// A signal: an offset and sines.
///
/// The stamp is reduced modulo each period in integers, so that a signal is as precise at a stamp
/// of this century as near zero.
#[derive(Clone, Debug)]
pub struct Wave {
    offset: f64,
    sines: Vec<Sine>,
    /// How far its time is ahead of the true time \[s\], as a signal; `None`: not at all.
    tempo: Option<Arc<Wave>>,
}

impl Wave {
    /// A signal that does not change.
    pub(super) fn constant(offset: f64) -> Self {
        Wave { offset, sines: Vec::new(), tempo: None }
    }

    /// One sine per part, of the given amplitude, with a frequency drawn from `low..high` \[Hz\]
    /// and any phase.
    pub(super) fn random(random: &mut Random, offset: f64, parts: &[(f64, f64, f64)]) -> Self {
        let sine = |&(amplitude, low, high): &(f64, f64, f64)| {
            let period_ns = (NANOS_PER_S as f64 / random.between(low, high)).round() as i64;
            Sine { amplitude, period_ns, phase: random.between(0.0, TAU) }
        };
        Wave { offset, sines: parts.iter().map(sine).collect(), tempo: None }
    }

    /// A tempo for signals that follow it: their time runs at 0 to 2 times its speed, irregularly.
    pub(super) fn random_tempo(random: &mut Random) -> Self {
        // The shares add up to 1, so that time never runs back. The fast ones make starts and stops sharp.
        const SHARES: [f64; 4] = [0.1, 0.2, 0.3, 0.4];
        let parts = [(1.0, 0.3, 0.6), (1.0, 0.9, 1.4), (1.0, 2.0, 2.8), (1.0, 3.5, 4.5)];
        let mut wave = Wave::random(random, 0.0, &parts);
        for (sine, share) in wave.sines.iter_mut().zip(SHARES) {
            sine.amplitude = share / sine.omega();
        }
        wave
    }

    /// Lets it follow a tempo.
    pub(super) fn follow(&mut self, tempo: &Arc<Wave>) {
        self.tempo = Some(Arc::clone(tempo));
    }

    /// `middle + side * self`
    pub(super) fn mirrored(&self, middle: f64, side: f64) -> Self {
        let mut wave = self.clone();
        wave.offset = middle + side * wave.offset;
        for sine in &mut wave.sines {
            sine.amplitude *= side;
        }
        wave
    }

    /// Value, first and second derivative by time in seconds.
    pub fn jet(&self, t: Stamp) -> [f64; 3] {
        let Some(tempo) = &self.tempo else { return self.steady_jet(t) };
        let [ahead, faster, change] = tempo.steady_jet(t);
        let [value, first, second] =
            self.steady_jet(t.offset((ahead * NANOS_PER_S as f64).round() as i64));
        let rate = 1.0 + faster;
        // The chain rule.
        [value, first * rate, second * rate * rate + first * change]
    }

    /// As [`Wave::jet`], without a tempo.
    fn steady_jet(&self, t: Stamp) -> [f64; 3] {
        let mut jet = [self.offset, 0.0, 0.0];
        for sine in &self.sines {
            let past = t.nanos().rem_euclid(sine.period_ns) as f64;
            let (s, c) = libm::sincos(TAU * (past / sine.period_ns as f64) + sine.phase);
            let omega = sine.omega();
            jet[0] += sine.amplitude * s;
            jet[1] += sine.amplitude * omega * c;
            jet[2] -= sine.amplitude * omega * omega * s;
        }
        jet
    }

    /// The value alone.
    pub fn value(&self, t: Stamp) -> f64 {
        self.jet(t)[0]
    }

    /// Greatest magnitude of the derivative of the given order (0: the value), up to 4.
    pub fn bound(&self, order: i32) -> f64 {
        let Some(tempo) = &self.tempo else { return self.steady_bound(order) };
        let f = |order| self.steady_bound(order);
        let [w1, w2, w3, w4] = [1, 2, 3, 4].map(|order| tempo.steady_bound(order));
        let w1 = 1.0 + w1;
        // Faa di Bruno's formula for the derivatives of a function of a function.
        match order {
            0 => f(0),
            1 => f(1) * w1,
            2 => f(2) * w1 * w1 + f(1) * w2,
            3 => f(3) * w1.powi(3) + 3.0 * f(2) * w1 * w2 + f(1) * w3,
            4 => {
                let second = 3.0 * w2 * w2 + 4.0 * w1 * w3;
                f(4) * w1.powi(4) + 6.0 * f(3) * w1 * w1 * w2 + f(2) * second + f(1) * w4
            }
            _ => f64::INFINITY,
        }
    }

    fn steady_bound(&self, order: i32) -> f64 {
        let offset = if order == 0 { self.offset.abs() } else { 0.0 };
        let size = |sine: &Sine| sine.amplitude.abs() * sine.omega().powi(order);
        offset + self.sines.iter().map(size).sum::<f64>()
    }

    /// Bounds of the derivative of the given order and of its own two derivatives.
    pub(super) fn bounds(&self, order: i32) -> Bound {
        Bound([0, 1, 2].map(|more| self.bound(order + more)))
    }
}

/// Greatest magnitudes of a signal and of its first and second derivative. Sums and products of
/// bounds bound the sums and products of the signals (triangle inequality and product rule).
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound(pub(super) [f64; 3]);

impl Bound {
    /// Bounds of the sine of a signal with these bounds: `(sin f)'' = f'' cos f - f'^2 sin f`, and
    /// `|sin f| <= |f|`.
    pub(super) fn of_sine(self) -> Bound {
        let [value, rate, acceleration] = self.0;
        let sine = value.min(1.0);
        Bound([sine, rate, acceleration + rate * rate * sine])
    }

    /// Bounds of the cosine: `(cos f)'' = -f'' sin f - f'^2 cos f`.
    pub(super) fn of_cosine(self) -> Bound {
        let [value, rate, acceleration] = self.0;
        let sine = value.min(1.0);
        Bound([1.0, rate * sine, acceleration * sine + rate * rate])
    }
}

impl Add for Bound {
    type Output = Bound;
    fn add(self, other: Bound) -> Bound {
        Bound([0, 1, 2].map(|i| self.0[i] + other.0[i]))
    }
}

impl Sub for Bound {
    type Output = Bound;
    #[allow(clippy::suspicious_arithmetic_impl)] // the magnitude of a difference
    fn sub(self, other: Bound) -> Bound {
        self + other
    }
}

impl Neg for Bound {
    type Output = Bound;
    fn neg(self) -> Bound {
        self
    }
}

impl Mul for Bound {
    type Output = Bound;
    #[allow(clippy::suspicious_arithmetic_impl)] // the product rule
    fn mul(self, other: Bound) -> Bound {
        let ([f0, f1, f2], [g0, g1, g2]) = (self.0, other.0);
        Bound([f0 * g0, f1 * g0 + f0 * g1, f2 * g0 + 2.0 * f1 * g1 + f0 * g2])
    }
}

/// The operations that the formulas of [`super::motion`] need. The same formula gives values with
/// `f64` and bounds with [`Bound`].
pub(super) trait Number:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
}
impl Number for f64 {}
impl Number for Bound {}
