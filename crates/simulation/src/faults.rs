//! Faults: what may go wrong in a run.

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
    /// Takes fail, and looks at the ports of the process.
    TakeErrors,
    /// The clock of some publishers is another one.
    OtherMachine,
    /// Loops wake late.
    SlowSteps,
    /// Messages come twice.
    Doubles,
    /// The backend fails. Then the node ends, and begins again.
    BadBackend,
    /// The node ends or is killed, and begins again.
    NodeEnds,
    /// Publishers end and begin again under the same identity, with numbers from 1. With [`Fault::OtherQos`], they offer
    /// another quality of service then.
    SameIdentity,
    /// A sensor stamps a message as the one before.
    EqualStamps,
}

impl Fault {
    /// All faults, in the order of their bits.
    pub const ALL: [Fault; 27] = [
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
        Fault::Doubles,
        Fault::BadBackend,
        Fault::NodeEnds,
        Fault::SameIdentity,
        Fault::EqualStamps,
    ];

    /// Its bit in a mask.
    pub fn bit(self) -> u64 {
        1 << self as u64
    }
}
