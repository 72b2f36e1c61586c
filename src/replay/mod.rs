//! Recorded bags through the pipeline and the runtime of the node, without ROS.
//!
//! 1. [`bag`] reads the messages of a recording in the order in which they were received.
//! 2. [`Wiring`] says which topic feeds which input of a configuration.
//! 3. [`run`] plays an episode, which is a bag or a part of one, through a pipeline, as fast as it goes
//!    ([`Player`](crate::runtime::Player)), and gives each tensor to an [`output::Output`].
//! 4. [`batch`] does so with many episodes on all cores, and brings each result under its final name only
//!    when it is complete.
//! 5. [`inspect`] says what a bag has, and what is wrong with it.
//! 6. [`calibrate`] finds the constant latency of a stream against another.

pub mod bag;
pub mod batch;
pub mod calibrate;
mod definitions;
mod division;
mod edges;
mod episode;
mod error;
mod find;
pub mod inspect;
pub mod output;
mod read_ahead;
pub mod recording;
mod results;
mod run;
mod shares;
mod summary;
pub mod verify;
mod waits;
mod wiring;

pub use definitions::BagDefinitions;
pub use division::{Division, Parts, episodes};
pub use edges::EdgeTopic;
pub use episode::{Episode, EpisodesError, Listed, Moment, read_episodes};
pub use error::ReplayError;
pub use find::find_bags;
pub use results::{Format, store_summaries, summaries};
pub use run::{Playing, Progress, run};
pub use shares::Share;
pub use summary::{InputSummary, Skew, StreamSummary, Summary};
pub use wiring::{Remap, TimeSource, Wiring};
