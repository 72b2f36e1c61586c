//! How chunks of actions become commands, as a configuration says it.

use super::StreamId;
use robocache_ops::operators::Operator;
use robocache_ops::time::TickGrid;

/// The commands of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandsSpec {
    /// Rate of the command ticks \[Hz\], as written.
    pub rate_hz: f64,
    /// The instants of the command ticks. They are not those of the tensors' ticks.
    pub grid: TickGrid,
    /// The groups. Each has chunks, limits and messages of its own.
    pub groups: Vec<GroupSpec>,
}

/// Joints that one chunk moves together.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSpec {
    /// Name, as chunks have it.
    pub name: String,
    /// The joints, in the order of a row.
    pub joints: Vec<JointSpec>,
    /// Meaning of a number of a row.
    pub interface: Interface,
    /// The contract that says what a row is, as the configuration names it; `None` if the configuration says it.
    pub contract: Option<String>,
    /// Instants of the rows: row `k` is for the tick of the answered tensor plus entry `k` \[ns\]. They rise.
    pub offsets_ns: Vec<i64>,
    /// A command is the plan so long after its tick \[ns\], for the delay of an actuator.
    pub lead_ns: i64,
    /// Time in which the difference to a new plan fades \[ns\]; 0: the new plan counts at once.
    pub blend_ns: i64,
    /// Measured values that commands begin at.
    pub start_from: StartSpec,
    /// The stream whose values a policy adds to relative rows; `None` if no row is relative.
    pub reference: Option<StreamId>,
    /// If no chunk has begun to count for longer than this \[ns\], the plan is stalled.
    pub watchdog_ns: i64,
    /// Reaction to a stall.
    pub on_stall: End,
    /// Reaction after the last row.
    pub on_end: End,
    /// Meaning of a chunk whose rows are all past when it comes.
    pub on_late: Late,
    /// True if a new epoch and a standstill leave commands enabled.
    pub rearm: bool,
    /// Output of its commands.
    pub output: CommandOutputSpec,
}

/// Output of a group's commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutputSpec {
    /// The topic.
    pub topic: String,
    /// Type of the messages.
    pub ros_type: &'static str,
    /// When there is a message.
    pub form: CommandForm,
}

/// One joint of a group.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct JointSpec {
    /// Name, as chunks and controllers have it.
    pub name: String,
    /// How its value follows from rows.
    pub interpolate: Interpolate,
    /// True if rows are differences to the chunk's reference.
    pub relative: bool,
    /// True if it is an angle without an end, so that a turn makes no difference \[rad\].
    pub angular: bool,
    /// Operators of the training on its values, in order. The node takes them back.
    pub operators: Vec<Operator>,
    /// Limits of its commands.
    pub limits: JointLimits,
}

/// Limits of the commands of a joint. Units are those of the joint (rad or m), per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct JointLimits {
    /// Least and greatest position.
    pub position: Option<[f64; 2]>,
    /// Greatest velocity.
    pub velocity: Option<f64>,
    /// Greatest acceleration.
    pub acceleration: Option<f64>,
}

/// Meaning of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// A position \[rad or m\].
    #[default]
    Position,
    /// A velocity \[rad/s or m/s\].
    Velocity,
}

impl Interface {
    /// The name in configurations, and of the quantity in channels of measured joints.
    pub const fn name(self) -> &'static str {
        match self {
            Interface::Position => "position",
            Interface::Velocity => "velocity",
        }
    }
}

/// How a value between two rows follows from rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolate {
    /// The row before.
    Hold,
    /// The straight line.
    #[default]
    Linear,
    /// The cubic Hermite curve with central differences as slopes.
    Cubic,
}

impl Interpolate {
    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Interpolate::Hold => "hold",
            Interpolate::Linear => "linear",
            Interpolate::Cubic => "cubic",
        }
    }
}

/// Reaction when there is no plan any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Constant deceleration. Then the position is held; a velocity is zero for a moment, and then no command is sent.
    Decelerate,
    /// The last command is held. For positions alone.
    Hold,
    /// No command is sent. For positions alone.
    Silence,
    /// Zeros for a moment, then no command. For velocities alone.
    Zeros,
}

impl End {
    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            End::Decelerate => "decelerate",
            End::Hold => "hold",
            End::Silence => "silence",
            End::Zeros => "zeros",
        }
    }
}

/// Meaning of a chunk whose rows are all past when it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// It is counted, and changes nothing.
    #[default]
    Ignore,
    /// Its last row is held until the watchdog ends it.
    Last,
}

/// When commands become messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandForm {
    /// At each command tick, its command.
    EachTick,
    /// When a plan or an end comes into force, all of it, in points this far apart \[ns\].
    Points {
        /// Between two points, a whole number of command periods.
        step_ns: i64,
    },
}

/// Measured values that commands begin at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartSpec {
    /// The stream.
    pub stream: StreamId,
    /// Per joint: its channel among those of the stream's samples.
    pub channels: Vec<usize>,
}
