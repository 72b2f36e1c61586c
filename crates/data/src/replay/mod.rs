//! Recorded bags through the pipeline and the runtime of the node, without ROS.
//!
//! 1. [`Wiring`] says which topic feeds which input of a configuration.
//! 2. [`run`] plays an episode, which is a bag or a part of one, through a pipeline, as fast as it goes
//!    ([`Player`](robocache_runtime::Player)), and gives each tensor to an [`Output`](crate::output::Output).
//! 3. [`batch`] does so with many episodes on all cores, and brings each result under its final name only
//!    when it is complete.
//!
//! A [`ReplayRequest`] has all that a replay can be asked for.

pub mod batch;
mod commands;
mod definitions;
mod division;
mod episode;
mod episode_topic;
mod error;
mod find;
mod kept_backend;
mod options;
mod read_ahead;
mod request;
mod results;
mod run;
mod shares;
pub mod stamps;
mod summary;
mod waits;
mod wiring;

pub use definitions::BagDefinitions;
pub use division::{Division, Parts, episodes};
pub use episode::{Episode, EpisodesError, Given, Listed, Moment, Source, read_episodes};
pub use episode_topic::{EpisodeNumber, EpisodeTopic};
pub use error::ReplayError;
pub use find::find_bags;
pub use options::{Busy, ReplayOptions};
pub use request::{AskedGpu, EpisodesRequest, Jobs, ReplayRequest, RequestError};
pub use results::{Format, store_summaries, summaries};
pub use run::{Playing, Progress, run};
pub use shares::Share;
pub use summary::{
    CommandsSummary, GroupSummary, InputSummary, JpegSummary, Skew, StreamSummary, Summary,
};
pub use wiring::names;
pub use wiring::{AskedClock, ClockSource, Remap, Wiring};
