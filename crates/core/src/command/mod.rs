//! The way back: chunks of actions to commands.
//!
//! **A chunk is a plan, a ring of (instant, row). A command is that ring resampled at a command tick.**
//!
//! ```text
//! policy --chunk--> plan --+--> command tick --> limits --> command messages --> controller
//!                          +--> CommandStatus goes back to the policy
//! ```
//!
//! - [`ActionChunk`]: a message of a policy, read without a copy.
//! - [`plan`](self): a chunk's rows at their instants, and the value between two rows.
//! - [`limits`](self): what a joint may do from one command tick to the next.
//! - [`output`]: commands to messages, one file per message type.
//! - [`CommandGroup`]: takes chunks, and makes the command of each tick. It knows no clock and no thread: the caller says
//!   what each command tick found, so that a replay of these facts gives the same bits.

mod chunk;
mod digest;
mod group;
mod limits;
pub mod output;
mod plan;
mod refused;
mod stage;
mod status;

pub use chunk::{ActionChunk, MOST_ROWS, SentChunk};
pub use digest::CommandDigest;
pub use group::{CommandGroup, CommandTick, Disabling, Found, GroupCounts, Made, Newest};
pub use limits::Limit;
pub use refused::Refusal;
pub use stage::{Stage, WaitsFor};
pub use status::{CommandStatus, MOST_REFUSED, ReceivedStatus, RefusedChunk};
