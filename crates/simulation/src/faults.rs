//! Faults: what may go wrong in a run, and when, as the seed says.

use crate::net::{MS, Rules, S};
use robocache_ops::random::Random;

/// A kind of fault. Its number is its bit in a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Messages of best effort are lost.
    Loss,
    /// Messages come late.
    Delay,
    /// Answers of discovery come seconds late.
    LateAnswers,
    /// Messages of best effort overtake each other.
    Swaps,
    /// A loop of the node does not run for a while.
    Stall,
    /// The node's process stands still.
    Standstill,
    /// The machine is suspended.
    Suspend,
    /// Connections are cut off for good: by a standstill, or while the process runs.
    CutOff,
    /// Somebody sets the system's clock.
    SetClock,
    /// A simulator begins again, and `/clock` jumps back.
    ClockBack,
    /// A simulator pauses.
    ClockPause,
    /// Publishers end and begin again, with numbers from 1.
    Restart,
    /// Publishers begin again with another quality of service.
    OtherQos,
    /// A publisher that ends tells nothing.
    Killed,
    /// The disk is full from some instant on.
    FullDisk,
    /// The disk does not answer for a while.
    HangingDisk,
    /// Each encoding of an image takes long.
    SlowEncoder,
    /// Transforms come late, or are stamped ahead.
    Transforms,
    /// The policy ends and begins again.
    PolicyEnds,
    /// Takes fail.
    TakeErrors,
    /// The clock of some publishers is another one.
    OtherMachine,
    /// Loops wake late.
    SlowSteps,
}

impl Fault {
    /// All faults, in the order of their bits.
    pub const ALL: [Fault; 22] = [
        Fault::Loss,
        Fault::Delay,
        Fault::LateAnswers,
        Fault::Swaps,
        Fault::Stall,
        Fault::Standstill,
        Fault::Suspend,
        Fault::CutOff,
        Fault::SetClock,
        Fault::ClockBack,
        Fault::ClockPause,
        Fault::Restart,
        Fault::OtherQos,
        Fault::Killed,
        Fault::FullDisk,
        Fault::HangingDisk,
        Fault::SlowEncoder,
        Fault::Transforms,
        Fault::PolicyEnds,
        Fault::TakeErrors,
        Fault::OtherMachine,
        Fault::SlowSteps,
    ];

    /// Its bit in a mask.
    pub fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// Something that happens once, at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Occurrence {
    Stall { turn: u64, ns: u64 },
    Standstill { ns: u64 },
    Suspend { ns: u64 },
    CutOff,
    SetClock { by_ns: i64 },
    ClockBack,
    ClockPause { ns: u64 },
    Restart { turn: u64, after_ns: u64, other_qos: bool },
    FullDisk,
    HangingDisk { ns: u64 },
    PolicyEnds { ns: u64 },
}

/// All of a run that the seed draws before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub seed: u64,
    /// Faults that the seed has and the mask allows.
    pub faults: u64,
    pub rules: Rules,
    /// When which faults happen [ns since the start].
    pub occurrences: Vec<(u64, Occurrence)>,
    /// End of the run: so long after the last fault that all must be heard again.
    pub end_ns: u64,
    /// True if `/clock` is the clock of the node.
    pub simulated: bool,
    pub rate_hz: u64,
    pub lag_ms: u64,
    /// Greatest time between the instant at which a loop may run and its step.
    pub wake_ns: u64,
}

/// Time without a fault at the end of a run: all must be heard again by then.
pub(crate) const CALM_NS: u64 = 40 * S;

impl Plan {
    /// Draws the run of a seed. Faults that `mask` lacks do not happen. Nothing happens after `seconds`.
    pub(crate) fn draw(seed: u64, mask: u64, seconds: u64) -> Self {
        let mut draw = Random::new(seed);
        let simulated = draw.below(3) == 0;
        let rate_hz = [10, 20, 25][draw.below(3) as usize];
        let lag_ms = [0, 100, 300][draw.below(3) as usize];
        let numbers = draw.below(5) > 0;
        let share = [0.15, 0.3, 0.5][draw.below(3) as usize];
        let drawn = Fault::ALL.into_iter().filter(|_| draw.unit() < share);
        let faults = drawn.fold(0, |faults, fault| faults | fault.bit()) & mask;
        let has = |fault: Fault| faults & fault.bit() != 0;
        let rules = Rules {
            loss: if has(Fault::Loss) { 0.01 + 0.2 * draw.unit() } else { 0.0 },
            delay_ns: if has(Fault::Delay) { 300 * MS } else { 0 },
            late_answers: if has(Fault::LateAnswers) { 0.4 } else { 0.05 },
            take_errors: if has(Fault::TakeErrors) { 0.02 } else { 0.0 },
            numbers,
            // Only Fast DDS cuts off, and it numbers.
            cut_off: if has(Fault::CutOff) && numbers { 0.6 } else { 0.0 },
            swaps: has(Fault::Swaps),
            killed: has(Fault::Killed),
        };
        let end_ns = 3 * S + seconds * S;
        let mut occurrences: Vec<_> =
            Fault::ALL.into_iter().filter(|of| has(*of)).flat_map(|of| times(seed, of)).collect();
        occurrences.retain(|(at, _)| *at < end_ns);
        occurrences.sort_by_key(|(at, _)| *at);
        let last = occurrences.iter().map(|(at, of)| at + of.lasts_ns()).max();
        let calm_ns = last.unwrap_or(0).max(3 * S);
        Plan {
            seed,
            faults,
            rules,
            occurrences,
            end_ns: calm_ns + CALM_NS,
            simulated,
            rate_hz,
            lag_ms,
            wake_ns: if has(Fault::SlowSteps) { 20 * MS } else { 500_000 },
        }
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults & fault.bit() != 0
    }
}

impl Occurrence {
    /// How long it lasts.
    fn lasts_ns(self) -> u64 {
        match self {
            Occurrence::Stall { ns, .. }
            | Occurrence::Standstill { ns }
            | Occurrence::ClockPause { ns }
            | Occurrence::HangingDisk { ns }
            | Occurrence::PolicyEnds { ns } => ns,
            Occurrence::Restart { after_ns, .. } => after_ns,
            _ => 0,
        }
    }
}

/// When a fault happens. It depends on the seed and the fault alone, so that a mask changes no other.
fn times(seed: u64, fault: Fault) -> Vec<(u64, Occurrence)> {
    let mut draw = Random::keyed(seed, [fault.bit(), 0x71ED]);
    let count = 1 + match fault {
        Fault::Standstill => draw.below(24),
        Fault::FullDisk => 0,
        _ => draw.below(4),
    };
    let once = |_| {
        let at = 2 * S + draw.below(30 * S);
        let ns = |draw: &mut Random, most: u64| most / 20 + draw.below(most);
        let occurrence = match fault {
            Fault::Stall => Occurrence::Stall { ns: ns(&mut draw, 2 * S), turn: draw.bits() },
            Fault::Standstill => {
                // Short ones often: so many fit between two new connections.
                let most = if draw.below(3) == 0 { 5 * S } else { 2 * S };
                Occurrence::Standstill { ns: ns(&mut draw, most) }
            }
            Fault::Suspend => Occurrence::Suspend { ns: ns(&mut draw, 100 * S) },
            Fault::CutOff => Occurrence::CutOff,
            Fault::SetClock => {
                // A step back between the two is one that a message may bridge: nobody can know of which side it is.
                let by_ns = match draw.below(4) {
                    0 => draw.below(40 * MS),
                    _ => 2 * S + draw.below(38 * S),
                } as i64;
                Occurrence::SetClock { by_ns: if draw.below(2) == 0 { by_ns } else { -by_ns } }
            }
            Fault::ClockBack => Occurrence::ClockBack,
            Fault::ClockPause => Occurrence::ClockPause { ns: ns(&mut draw, 4 * S) },
            Fault::Restart | Fault::OtherQos => Occurrence::Restart {
                after_ns: ns(&mut draw, 3 * S),
                turn: draw.bits(),
                other_qos: fault == Fault::OtherQos,
            },
            Fault::FullDisk => Occurrence::FullDisk,
            Fault::HangingDisk => Occurrence::HangingDisk { ns: ns(&mut draw, 5 * S) },
            Fault::PolicyEnds => Occurrence::PolicyEnds { ns: ns(&mut draw, 3 * S) },
            _ => return None,
        };
        Some((at, occurrence))
    };
    (0..count).filter_map(once).collect()
}
