//! The plan of a run: all that its seed draws before it begins.

use crate::faults::Fault;
use crate::net::{MS, Rules, S};
use robocache_ops::random::Random;

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
    Restart { turn: u64, after_ns: u64, with: Again },
    FullDisk,
    HangingDisk { ns: u64 },
    PolicyEnds { ns: u64 },
    BackendFails { ns: u64 },
    NodeEnds { ns: u64, killed: bool },
}

/// How a publisher begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    /// Under the identity that it had, rather than as another publisher.
    pub same_identity: bool,
    /// With another quality of service.
    pub other_qos: bool,
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
    /// When from no message is lost any more.
    pub calm_ns: u64,
    /// Latest end of the run: so long after the last fault all must be heard again.
    pub end_ns: u64,
    /// True if the run ends as soon as all is heard again.
    pub ends_early: bool,
    /// True if `/clock` is the clock of the node.
    pub simulated: bool,
    pub rate_hz: u64,
    pub lag_ms: u64,
    /// Greatest time between the instant at which a loop may run and its step.
    pub wake_ns: u64,
}

/// Time without a fault, after which all must be heard again.
const RECOVERY_NS: u64 = 40 * S;
/// In this time at the end of a run no message is lost.
pub(crate) const LAST_NS: u64 = 3 * S;
/// Faults begin after this time.
const FIRST_NS: u64 = 2 * S;
/// Share of the seeds in which the process stands still.
const STANDSTILLS: f64 = 0.85;

impl Plan {
    /// Draws the run of a seed. Faults that `mask` lacks do not happen. Nothing happens after `seconds`.
    pub(crate) fn draw(seed: u64, mask: u64, seconds: u64) -> Self {
        let mut draw = Random::new(seed);
        let simulated = draw.below(3) == 0;
        let rate_hz = [10, 20, 25][draw.below(3) as usize];
        let lag_ms = [0, 100, 300][draw.below(3) as usize];
        let numbers = draw.below(5) > 0;
        let share = [0.1, 0.25, 0.5][draw.below(3) as usize];
        let seconds = seconds.min([8, 15, 30][draw.below(3) as usize]);
        let ends_early = draw.below(8) > 0;
        let mut is_drawn = |fault: &Fault| match fault {
            Fault::Standstill => draw.unit() < STANDSTILLS,
            // It came later than the others, whose seeds stay what they were.
            Fault::EqualStamps => Random::keyed(seed, [fault.bit(), 0]).unit() < share,
            _ => draw.unit() < share,
        };
        let drawn = Fault::ALL.into_iter().filter(|fault| is_drawn(fault));
        let faults = drawn.fold(0, |faults, fault| faults | fault.bit()) & mask;
        let has = |fault: Fault| faults & fault.bit() != 0;
        let rules = Rules {
            loss: if has(Fault::Loss) { 0.01 + 0.2 * draw.unit() } else { 0.0 },
            delay_ns: if has(Fault::Delay) { 300 * MS } else { 0 },
            late_answers: if has(Fault::LateAnswers) { 0.4 } else { 0.05 },
            take_errors: if has(Fault::TakeErrors) { 0.02 } else { 0.0 },
            look_errors: if has(Fault::TakeErrors) { 0.2 } else { 0.0 },
            numbers,
            // Only Fast DDS cuts off, and it numbers.
            cut_off: if has(Fault::CutOff) && numbers { 0.6 } else { 0.0 },
            swaps: has(Fault::Swaps),
            // Without a number nobody can tell that a message comes once more.
            doubles: if has(Fault::Doubles) && numbers { 0.05 } else { 0.0 },
            killed: has(Fault::Killed),
        };
        let mut occurrences: Vec<_> =
            Fault::ALL.into_iter().filter(|of| has(*of)).flat_map(|of| times(seed, of)).collect();
        for (_, occurrence) in &mut occurrences {
            if let Occurrence::Restart { with, .. } = occurrence {
                with.other_qos |= with.same_identity && has(Fault::OtherQos);
            }
        }
        occurrences.retain(|(at, _)| *at < FIRST_NS + seconds * S);
        occurrences.sort_by_key(|(at, _)| *at);
        let last = occurrences.iter().map(|(at, of)| at + of.lasts_ns()).max();
        let last_ns = last.unwrap_or(0).max(FIRST_NS + S);
        let end_ns = last_ns + RECOVERY_NS;
        Plan {
            seed,
            faults,
            rules,
            occurrences,
            calm_ns: if ends_early { last_ns + S } else { end_ns - LAST_NS },
            end_ns,
            ends_early,
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
            | Occurrence::PolicyEnds { ns }
            | Occurrence::BackendFails { ns }
            | Occurrence::NodeEnds { ns, .. } => ns,
            Occurrence::Restart { after_ns, .. } => after_ns,
            _ => 0,
        }
    }
}

/// When a fault happens. It depends on the seed and the fault alone, so that a mask changes no other.
fn times(seed: u64, fault: Fault) -> Vec<(u64, Occurrence)> {
    let mut draw = Random::keyed(seed, [fault.bit(), 0x71ED]);
    if fault == Fault::Standstill {
        return standstills(&mut draw);
    }
    let count = 1 + match fault {
        Fault::FullDisk | Fault::BadBackend => 0,
        Fault::NodeEnds => draw.below(2),
        _ => draw.below(4),
    };
    let once = |_| Some((FIRST_NS + draw.below(30 * S), occurrence(fault, &mut draw)?));
    (0..count).filter_map(once).collect()
}

/// Standstills, one after the other. Those of a seed are alike: many new connections overlap only if they are dense.
fn standstills(draw: &mut Random) -> Vec<(u64, Occurrence)> {
    let gap_ns = [S / 5, S / 2, S, 4 * S][draw.below(4) as usize];
    let length_ns = [S / 2, S, 3 * S][draw.below(3) as usize];
    let mut at = FIRST_NS + draw.below(2 * S);
    let mut once = |_| {
        let ns = match draw.below(8) {
            // Too short to be noticed, or to cut off.
            0 => draw.below(9 * S / 10),
            _ => 9 * S / 10 + draw.below(length_ns),
        };
        let begins = at;
        at += ns + 20 * MS + draw.below(2 * gap_ns);
        (begins, Occurrence::Standstill { ns })
    };
    (0..40).map(&mut once).collect()
}

/// Draws an occurrence of a fault; `None` for a fault that does not happen at an instant.
fn occurrence(fault: Fault, draw: &mut Random) -> Option<Occurrence> {
    let ns = |draw: &mut Random, most: u64| most / 20 + draw.below(most);
    Some(match fault {
        Fault::Stall => Occurrence::Stall { ns: ns(draw, 2 * S), turn: draw.bits() },
        Fault::Suspend => Occurrence::Suspend { ns: ns(draw, 100 * S) },
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
        Fault::ClockPause => Occurrence::ClockPause { ns: ns(draw, 4 * S) },
        Fault::Restart | Fault::OtherQos | Fault::SameIdentity => Occurrence::Restart {
            after_ns: ns(draw, 3 * S),
            turn: draw.bits(),
            with: Again {
                same_identity: fault == Fault::SameIdentity,
                other_qos: fault == Fault::OtherQos,
            },
        },
        Fault::FullDisk => Occurrence::FullDisk,
        Fault::HangingDisk => Occurrence::HangingDisk { ns: ns(draw, 5 * S) },
        Fault::PolicyEnds => Occurrence::PolicyEnds { ns: ns(draw, 3 * S) },
        Fault::BadBackend => Occurrence::BackendFails { ns: ns(draw, 2 * S) },
        Fault::NodeEnds => Occurrence::NodeEnds { ns: ns(draw, 2 * S), killed: draw.below(2) == 0 },
        _ => return None,
    })
}
