//! Stages of a group, and the conditions that it waits for.

/// Stage of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Commands are disabled.
    #[default]
    Disabled,
    /// There is no plan, or no measured value to begin at.
    Waiting,
    /// Commands follow the plan.
    Following,
    /// No chunk came in time, or the measured values are invalid.
    Stalled,
    /// The plan has no rows any more.
    Ended,
    /// Commands will be disabled when the group is at rest.
    Stopping,
}

impl Stage {
    /// All stages, in the order of their numbers.
    pub const ALL: [Stage; 6] = [
        Stage::Disabled,
        Stage::Waiting,
        Stage::Following,
        Stage::Stalled,
        Stage::Ended,
        Stage::Stopping,
    ];

    /// The stage in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Stage::Disabled => "disabled",
            Stage::Waiting => "waiting",
            Stage::Following => "following",
            Stage::Stalled => "stalled",
            Stage::Ended => "ended",
            Stage::Stopping => "stopping",
        }
    }
}

/// Condition that a group waits for before it follows a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitsFor {
    /// It follows a plan.
    Nothing,
    /// Somebody must enable commands.
    #[default]
    Enabling,
    /// The stream `start_from` must have valid values.
    Measured,
    /// The policy must send a chunk.
    Chunk,
    /// The first row of a chunk that has come is for a later instant.
    FirstRow,
    /// The joints must come to rest.
    Rest,
}

impl WaitsFor {
    /// All of them, in the order of their numbers.
    pub const ALL: [WaitsFor; 6] = [
        WaitsFor::Nothing,
        WaitsFor::Enabling,
        WaitsFor::Measured,
        WaitsFor::Chunk,
        WaitsFor::FirstRow,
        WaitsFor::Rest,
    ];

    /// Name of the condition, as messages have it; empty if the group waits for nothing.
    pub const fn word(self) -> &'static str {
        match self {
            WaitsFor::Nothing => "",
            WaitsFor::Enabling => "enabling",
            WaitsFor::Measured => "measured",
            WaitsFor::Chunk => "chunk",
            WaitsFor::FirstRow => "first_row",
            WaitsFor::Rest => "rest",
        }
    }
}
