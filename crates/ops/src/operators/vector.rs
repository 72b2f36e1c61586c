//! Vectors: their channels and groups, and what operators make of them.

use super::{OutputChannel, Stages};
use crate::align::Strategy;
use crate::resample::Lane;

/// A vector: its channels, which of them arrive together, and what is made of them.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct VectorSpec {
    /// The elements of the samples, in order. The four elements of a quaternion are next to each other.
    pub channels: Vec<Channel>,
    /// The groups. Each is resampled by itself. Each channel is in exactly one group.
    pub groups: Vec<Group>,
    /// The elements of a step, in order. Empty if they are the channels as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputChannel>,
}

impl VectorSpec {
    /// A row whose channels arrive together.
    pub fn whole(channels: Vec<Channel>) -> Self {
        let groups = vec![Group { channels: (0..channels.len()).collect() }];
        VectorSpec { channels, groups, outputs: Vec::new() }
    }

    /// Elements of a step.
    pub fn len(&self) -> usize {
        if self.outputs.is_empty() { self.channels.len() } else { self.outputs.len() }
    }

    /// True if a step has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of the elements of a step.
    pub fn names(&self) -> Vec<&str> {
        match self.outputs.as_slice() {
            [] => self.channels.iter().map(|channel| channel.name.as_str()).collect(),
            outputs => outputs.iter().map(|output| output.name.as_str()).collect(),
        }
    }

    /// Positions in a step of what a group gives, in the order of [`Stages`].
    pub fn places(&self, group: usize) -> Vec<usize> {
        let channels = &self.groups[group].channels;
        if self.outputs.is_empty() {
            return channels.clone();
        }
        let outputs = self.outputs_of_channels();
        channels.iter().flat_map(|channel| outputs[*channel].iter().copied()).collect()
    }

    /// Per channel: the positions of the outputs that come from it, or from the quaternion that begins
    /// with it.
    pub fn outputs_of_channels(&self) -> Vec<Vec<usize>> {
        let mut of = vec![Vec::new(); self.channels.len()];
        for (at, output) in self.outputs.iter().enumerate() {
            of[output.source.channel()].push(at);
        }
        of
    }

    /// Stages at which the operators of a group act. `strategy` is that of the stream.
    pub fn stages(&self, group: usize, strategy: Strategy) -> Stages {
        match self.outputs.is_empty() {
            true => Stages::default(),
            false => Stages::new(self, group, strategy.interpolates()),
        }
    }

    /// True if rows of a group stay `f32` until a tick, which interpolates them or applies operators. Otherwise
    /// they are rounded to the stream's element type when they are encoded.
    pub fn keeps_f32(&self, group: usize, strategy: Strategy) -> bool {
        strategy.interpolates() || self.stages(group, strategy).output.is_some()
    }

    /// How each element of a group's sample is interpolated.
    pub fn lanes(&self, group: usize) -> Vec<Lane> {
        self.groups[group].channels.iter().map(|channel| self.channels[*channel].lane).collect()
    }
}

/// One element of a vector row.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Channel {
    /// Its name: `joint_3.position`, `orientation.x`.
    pub name: String,
    /// How it is interpolated.
    pub lane: Lane,
}

/// Channels that arrive in one sample.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Group {
    /// Position among the channels of each element of the sample.
    pub channels: Vec<usize>,
}
