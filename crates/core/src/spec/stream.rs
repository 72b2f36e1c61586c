//! Streams, and the inputs that feed them.

use std::borrow::Cow;

use super::selection::Selection;
use super::{DeskewSpec, InFrame, RingId, StreamId, Timeline};
use crate::encoder::EncoderSpec;
use crate::sample::Bounds;
use robocache_ops::align::{AlignRule, MergeSpec, Strategy};
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::IDENTITY;

/// Most inputs of a stream: the message has a bit for each.
pub const MAX_INPUTS: usize = 32;

/// One input: a topic, the type of its messages and what it takes from them.
///
/// An input knows nothing of rows. It takes samples from a message, one per part of its selection.
/// Each part has its own ring.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSpec {
    /// The stream's name; with several inputs, followed by the input's number.
    pub name: String,
    /// The stream that it feeds; `None` if its messages become no rows.
    pub stream: Option<StreamId>,
    /// Topic, before remapping.
    pub topic: String,
    /// Type of the messages, as `package/msg/Type`.
    pub ros_type: String,
    /// Selection from a message.
    pub(crate) selection: Selection,
    /// The ring of each part.
    pub feeds: Vec<RingId>,
    /// Reliability and depth of the subscription.
    pub qos: Qos,
    /// `header.frame_id` that messages must carry; any if `None`.
    pub frame_id: Option<String>,
    /// Takes a point of the sensor's frame to the base frame, `[R | t]` row by row \[m\]. Only clouds are
    /// moved.
    pub t_base_sensor: [[f64; 4]; 3],
    /// The frame that samples are taken to by the tree of frames; `None` if they stay as they are.
    pub in_frame: Option<InFrame>,
    /// How the points of a cloud are moved to its stamp; `None` if they are all of one instant.
    pub deskew: Option<DeskewSpec>,
    /// Which stamp of a message counts.
    pub timeline: Timeline,
    /// Added to every stamp on arrival \[ns\].
    pub stamp_offset_ns: i64,
    /// Rate at which messages should arrive \[Hz\]. Diagnostics compare the actual rate with it. At
    /// load it serves to check that the ring reaches back far enough.
    pub expected_rate_hz: Option<f64>,
}

impl InputSpec {
    /// An input whose messages become no rows.
    pub(crate) fn without_rows(
        name: String,
        topic: String,
        ros_type: &str,
        selection: Selection,
        qos: Qos,
    ) -> Self {
        InputSpec {
            name,
            stream: None,
            topic,
            ros_type: ros_type.to_owned(),
            selection,
            feeds: Vec::new(),
            qos,
            frame_id: None,
            t_base_sensor: IDENTITY,
            in_frame: None,
            deskew: None,
            timeline: Timeline::Header,
            stamp_offset_ns: 0,
            expected_rate_hz: None,
        }
    }
}

/// Quality of service of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Reliability of the subscription: if lost messages are sent again.
    pub reliability: Reliability,
    /// Durability of the subscription: if messages of the time before it come too.
    pub durability: Durability,
    /// Messages that the middleware keeps (`keep_last`).
    pub depth: usize,
}

/// Reliability of a subscription: if lost messages are sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// `reliable` if all publishers offer it, otherwise `best_effort`.
    #[default]
    Auto,
    /// They are not. Every publisher fits.
    BestEffort,
    /// They are. A publisher that offers best effort does not fit.
    Reliable,
}

/// Durability of a subscription: if messages of the time before it come too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// `transient_local` if all publishers offer it, otherwise `volatile`.
    #[default]
    Auto,
    /// They do not. Every publisher fits.
    Volatile,
    /// They do. A publisher that keeps none does not fit.
    TransientLocal,
}

/// One stream: how samples become rows, and rows a segment of the tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Name of the segment; unique in the configuration.
    pub name: String,
    /// How a sample becomes a row.
    pub encoder: EncoderSpec,
    /// How a value follows from rows, and when it is valid.
    pub rule: AlignRule,
    /// The present target is this long before its tick \[ns\].
    pub lag_ns: i64,
    /// Number of target times up to the present one, at least 1.
    pub history_steps: usize,
    /// Distance of neighbouring target times of the history \[ns\].
    pub history_step_ns: i64,
    /// Number of target times from the present one on, at least 1.
    pub horizon_steps: usize,
    /// Distance of neighbouring target times of the horizon \[ns\].
    pub horizon_step_ns: i64,
    /// A row may be at most this far ahead of the node's clock when it arrives \[ns\].
    pub max_ahead_ns: i64,
    /// True if rows are the points of plans: a newer message replaces what lies after its start.
    pub plans: bool,
    /// True if a tick is held back while any step of this stream is invalid.
    pub required: bool,
    /// Element type of the segment.
    pub dtype: DType,
    /// Rows that each of its rings holds.
    pub ring_rows: usize,
    /// Rows that may be encoded before their turn, beside the next one.
    pub rows_ahead: usize,
    /// The largest image or cloud that it takes.
    pub bounds: Bounds,
    /// How clouds of several inputs become one row; `None` if each cloud is a row of its own.
    pub merge: Option<MergeSpec>,
}

impl StreamSpec {
    /// How a value at a target time follows from the rows around it.
    pub fn strategy(&self) -> Strategy {
        self.rule.strategy
    }

    /// Number of target times. History and horizon share the present one.
    pub const fn steps(&self) -> usize {
        self.history_steps + self.horizon_steps - 1
    }

    /// The step whose target is the present one, `lag_ns` before the tick.
    pub const fn present_step(&self) -> usize {
        self.history_steps - 1
    }

    /// The target of a step minus its tick \[ns\]. Step 0 is the oldest. The present one is at
    /// `-lag_ns`, and the last one `(horizon_steps - 1) * horizon_step_ns` after that.
    pub fn target_offset_ns(&self, step: usize) -> i64 {
        let present = self.present_step();
        let from_present = match step.checked_sub(present) {
            Some(ahead) => (ahead as i64).saturating_mul(self.horizon_step_ns),
            None => -((present - step) as i64).saturating_mul(self.history_step_ns),
        };
        from_present.saturating_sub(self.lag_ns)
    }

    /// True if rows ahead of the clock are expected.
    pub const fn looks_ahead(&self) -> bool {
        self.plans || self.horizon_steps > 1
    }

    /// The stream as a backend encodes it. If clouds of several inputs become one row, their points have
    /// been condensed, and a row has those of all inputs.
    pub fn of_rows(&self) -> Cow<'_, StreamSpec> {
        let Some(merge) = &self.merge else { return Cow::Borrowed(self) };
        let Some(encoder) = self.encoder.of_condensed() else { return Cow::Borrowed(self) };
        let max_points = self.bounds.max_points.saturating_mul(merge.max_age_ns.len());
        let bounds = Bounds { max_points, swept: false, ..self.bounds };
        Cow::Owned(StreamSpec { encoder, bounds, ..self.clone() })
    }

    /// The most memory of the clouds that merged rows are made of \[bytes\]: those of each row and each
    /// input, one that is just arriving, and those of all inputs once more, joined. `None` if rows are
    /// not merged.
    pub fn kept_bytes(&self) -> Option<usize> {
        let merge = self.merge.as_ref()?;
        let point = self.encoder.condenser()?.point_bytes();
        let kept = merge.max_age_ns.len().saturating_mul(self.ring_rows.saturating_add(1));
        let clouds = kept.saturating_add(1);
        Some(clouds.saturating_mul(point * self.bounds.max_points))
    }

    /// Slots of each of its rings. One is spare for the next row. The points of a plan are encoded
    /// beside all rows that they replace, with one more where they cut the plan before.
    pub const fn ring_slots(&self) -> usize {
        let slots = if self.plans { 2 * self.ring_rows + 2 } else { self.ring_rows + 1 };
        slots + self.rows_ahead
    }
}
