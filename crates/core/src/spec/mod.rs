//! A validated configuration: every number is in its final unit, every combination is possible.
//! [`crate::config`] makes it from a file.

mod commands;
mod frames;
mod ids;
mod selection;
mod stream;

use std::fmt::{self, Debug};

pub use commands::{
    CommandForm, CommandOutputSpec, CommandsSpec, End, GroupSpec, Interface, Interpolate,
    JointLimits, JointSpec, Late, StartSpec,
};
pub use frames::{DeskewSpec, InFrame, TfSpec, still_frame};
pub use ids::{InputId, RingId, SegmentId, StreamId};
pub(crate) use selection::Selection;
pub use stream::{Durability, InputSpec, MAX_INPUTS, Qos, Reliability, StreamSpec};

use robocache_ops::time::TickGrid;

/// The whole of a validated configuration.
#[derive(Clone, PartialEq)]
pub struct Config {
    /// Rate of the ticks \[Hz\], as written.
    pub rate_hz: f64,
    /// The instants of the ticks.
    pub grid: TickGrid,
    /// Frame of the fused tensor and of all voxel grids.
    pub base_frame: String,
    /// Topic of the fused tensor.
    pub output_topic: String,
    /// The tree of frames; `None` if nothing asks for it.
    pub tf: Option<TfSpec>,
    /// The inputs, those of the first stream first. Those of no stream are last:
    /// `/tf`, `/tf_static`, odometry, gyros, cameras.
    pub inputs: Vec<InputSpec>,
    /// The streams, in the order in which their segments are packed.
    pub streams: Vec<StreamSpec>,
    /// How chunks of actions become commands; `None` if there are no commands.
    pub commands: Option<CommandsSpec>,
    /// Source of this configuration.
    pub source: Source,
}

/// The file of a configuration, for those who receive its tensors. All sources are equal: two
/// configurations that mean the same are, however they are written.
#[derive(Clone, Default)]
pub struct Source {
    /// The file's name, as it was given.
    pub file: String,
    /// The file's text.
    pub text: String,
    /// Statements without any effect, one sentence each.
    pub without_effect: Vec<String>,
    /// Advice about what is possible in it but probably not meant, one sentence each with file and line.
    pub advice: Vec<String>,
    /// The files that it names, of statistics and of limits, each with its text as it was read.
    pub files: Vec<(String, String)>,
}

impl Debug for Config {
    /// Without commands if there are none. Results of a replay keep a digest of this text, and depend on no command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Config");
        all.field("rate_hz", &self.rate_hz).field("grid", &self.grid);
        all.field("base_frame", &self.base_frame).field("output_topic", &self.output_topic);
        all.field("tf", &self.tf).field("inputs", &self.inputs).field("streams", &self.streams);
        if let Some(commands) = &self.commands {
            all.field("commands", commands);
        }
        all.field("source", &self.source).finish()
    }
}

impl PartialEq for Source {
    fn eq(&self, _: &Source) -> bool {
        true
    }
}

impl Debug for Source {
    /// Without the text, which the rest of the configuration says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Config {
    /// An input.
    ///
    /// # Panics
    /// If the id is of another configuration. The other look-ups panic, too.
    pub fn input(&self, id: InputId) -> &InputSpec {
        &self.inputs[id.index()]
    }

    /// A stream.
    pub fn stream(&self, id: StreamId) -> &StreamSpec {
        &self.streams[id.index()]
    }

    /// All inputs.
    pub fn input_ids(&self) -> impl Iterator<Item = InputId> + use<> {
        (0..self.inputs.len()).map(InputId::new)
    }

    /// All streams.
    pub fn stream_ids(&self) -> impl Iterator<Item = StreamId> + use<> {
        (0..self.streams.len()).map(StreamId::new)
    }

    /// The input of the camera whose images a stream undistorts.
    pub fn camera_of(&self, stream: StreamId) -> Option<&InputSpec> {
        self.inputs.iter().find(|input| input.calibrates().contains(&stream))
    }

    /// True if an input has large messages, and its rows follow from the messages of its own stream: without frames and
    /// CameraInfo.
    pub fn stands_alone(&self, input: InputId) -> bool {
        let unaided = |id: InputId| {
            let spec = self.input(id);
            spec.is_large() && !spec.asks_for_frames(&self.streams)
        };
        let alone =
            |stream| self.camera_of(stream).is_none() && self.inputs_of(stream).all(unaided);
        self.input(input).stream.is_some_and(alone)
    }

    /// True if an input [stands alone](Self::stands_alone), and a row follows from one message: no clouds are merged.
    pub fn encodes_ahead(&self, input: InputId) -> bool {
        let merges = |stream| self.stream(stream).merge.is_some();
        self.stands_alone(input) && !self.input(input).stream.is_some_and(merges)
    }

    /// The configuration with memory for `rows` more rows of each stream whose messages are encoded before their turn.
    #[must_use]
    pub fn with_rows_ahead(mut self, rows: usize) -> Self {
        for stream in self.stream_ids() {
            if self.inputs_of(stream).any(|input| self.encodes_ahead(input)) {
                self.streams[stream.index()].rows_ahead = rows;
            }
        }
        self
    }

    /// The inputs of a stream.
    pub fn inputs_of(&self, stream: StreamId) -> impl Iterator<Item = InputId> + '_ {
        self.input_ids().filter(move |id| self.input(*id).stream == Some(stream))
    }
}

/// Which stamp of a message places it in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeline {
    /// `header.stamp`: when the sensor measured.
    #[default]
    Header,
    /// The node's clock on arrival.
    Receive,
}

impl Timeline {
    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Timeline::Header => "header",
            Timeline::Receive => "receive",
        }
    }
}
