//! Meaning of a stream's rows: all that windows need, as it is kept with the rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EpisodeError;
use robocache_core::encoder::Encoder;
use robocache_ops::align::{AlignRule, Fill, Strategy};
use robocache_ops::align::{MergeSpec, ValidWhen};
use robocache_ops::dtype::DType;
use robocache_ops::operators::Source;
use robocache_ops::operators::VectorSpec;
use robocache_ops::packing::Run;
use robocache_ops::resample::Lane;
use robocache_ops::windows::{Visibility, WindowRing, WindowStream};

/// Meaning of a stream's rows, and how the node makes windows of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RowMeaning {
    /// The stream's name.
    pub name: String,
    /// Shape of a step.
    pub row_shape: Vec<usize>,
    /// Shape of the coordinates of a step, if rows are sparse.
    pub coordinates_shape: Option<Vec<usize>>,
    /// Element type of a step.
    pub dtype: DType,
    /// Element type of the rows of each ring.
    pub row_dtypes: Vec<DType>,
    /// The channels of a vector; `None` if rows are images or grids.
    pub vector: Option<VectorSpec>,
    /// The names of the channels of a step.
    pub channels: Vec<String>,
    /// Targets minus the tick \[ns\].
    pub target_offsets_ns: Vec<i64>,
    /// The step of the present target.
    pub present: usize,
    /// How a value follows from rows.
    pub strategy: Strategy,
    /// Greatest distance between a target and a row used alone \[ns\].
    pub max_age_ns: i64,
    /// Greatest distance between the two rows of an interpolation \[ns\].
    pub max_gap_ns: i64,
    /// Content of an invalid step.
    pub fill: Fill,
    /// True if rows are points of plans.
    pub plans: bool,
    /// True if it is known when rows came. If not, windows see all rows, unless the caller chooses.
    #[serde(default = "yes")]
    pub arrivals: bool,
    /// Of merged clouds: the greatest age of the cloud of each input \[ns\].
    pub max_age_ns_of_inputs: Option<Vec<i64>>,
    /// Of merged clouds: `all`, `any`, or the numbers of the inputs that are needed.
    pub valid_when: Value,
}

/// Most elements of a step.
const MOST: usize = 1 << 31;

fn yes() -> bool {
    true
}

/// The parts of the attribute `ring` of a store that are read.
#[derive(Deserialize)]
struct RingAbout {
    dtype: DType,
    vector: Option<VectorSpec>,
    segment: SegmentAbout,
    arrivals: bool,
    max_age_ns_of_inputs: Option<Vec<i64>>,
    valid_when: Value,
}

#[derive(Deserialize)]
struct SegmentAbout {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    channels: Vec<String>,
    lag_ns: i64,
    target_offsets_ns: Vec<i64>,
    strategy: Strategy,
    max_age_ns: i64,
    max_gap_ns: i64,
    fill: Fill,
}

impl RowMeaning {
    /// Meaning of the rows of a store's stream, by its rings. `stored` has the element type of the rows of each.
    pub(super) fn of_store(
        rings: &[Value],
        stored: &[DType],
        plans: bool,
        coordinates_shape: Option<Vec<usize>>,
    ) -> Result<Self, String> {
        let read = |ring: &Value| {
            let about = RingAbout::deserialize(ring);
            about.map_err(|error| format!("what its rows mean cannot be read: {error}"))
        };
        let about = rings.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let Some(RingAbout { vector, segment, arrivals, max_age_ns_of_inputs, valid_when, .. }) =
            about.first()
        else {
            return Err("a stream without groups".to_owned());
        };
        let present = segment.target_offsets_ns.iter().position(|at| *at == -segment.lag_ns);
        // With `--bf16 f32` the same numbers are stored as f32.
        let fits = |(about, stored): (&RingAbout, &DType)| {
            about.dtype == *stored || (about.dtype == DType::Bf16 && *stored == DType::F32)
        };
        if !about.iter().zip(stored).all(fits) {
            return Err("rows of another element type than they say".to_owned());
        }
        Ok(RowMeaning {
            name: segment.name.clone(),
            row_shape: segment.shape.get(1..).unwrap_or_default().to_vec(),
            coordinates_shape,
            dtype: segment.dtype,
            row_dtypes: stored.to_vec(),
            vector: vector.clone(),
            channels: segment.channels.clone(),
            target_offsets_ns: segment.target_offsets_ns.clone(),
            present: present.ok_or("a stream without a present target")?,
            strategy: segment.strategy,
            max_age_ns: segment.max_age_ns,
            max_gap_ns: segment.max_gap_ns,
            fill: segment.fill,
            plans,
            arrivals: *arrivals,
            max_age_ns_of_inputs: max_age_ns_of_inputs.clone(),
            valid_when: valid_when.clone(),
        })
    }

    /// Elements of a row of a ring.
    pub fn row_len(&self, ring: usize) -> usize {
        let group = self.vector.as_ref().and_then(|vector| vector.groups.get(ring));
        group.map_or_else(|| self.row_shape.iter().product(), |group| group.channels.len())
    }

    /// Numbers of the coordinates of a row; 0 if it has none.
    pub fn coordinates_len(&self) -> usize {
        self.coordinates_shape.as_ref().map_or(0, |shape| shape.iter().product())
    }

    /// The windows that the node's configuration gives.
    pub(super) fn windows(&self, rings: usize) -> Result<WindowStream, EpisodeError> {
        self.check(rings)?;
        let rule = AlignRule {
            strategy: self.strategy,
            max_age_ns: self.max_age_ns,
            max_gap_ns: self.max_gap_ns,
            fill: self.fill,
        };
        Ok(WindowStream {
            name: self.name.clone(),
            number: 0,
            required: false,
            lag_stated: false,
            offsets_ns: self.target_offsets_ns.clone(),
            present: self.present,
            rule,
            within: false,
            view: match (self.plans, self.arrivals) {
                // What a plan says of the future was known.
                (true, _) => Visibility::Strict,
                (false, true) => Visibility::Served,
                (false, false) => Visibility::All,
            },
            merge: self.merge()?,
            dtype: self.dtype,
            scaled: false,
            step_len: self.row_shape.iter().product(),
            coordinates: self.coordinates_shape.as_ref().map(|_| self.coordinates_len()),
            rings: (0..rings).map(|ring| self.ring(ring)).collect(),
        })
    }

    /// Checks that the meaning does not contradict itself.
    fn check(&self, rings: usize) -> Result<(), EpisodeError> {
        let what = || format!("stream '{}'", self.name);
        let of = |shape: &[usize]| -> Option<usize> {
            shape.iter().try_fold(1usize, |len, dim| len.checked_mul(*dim).filter(|l| *l <= MOST))
        };
        let step = of(&self.row_shape);
        let places = self.coordinates_shape.as_deref().map_or(Some(0), of);
        let inputs = self.max_age_ns_of_inputs.as_ref().map_or(0, Vec::len);
        if step.is_none() || places.is_none() || inputs > 32 || self.row_dtypes.len() != rings {
            return Err(EpisodeError::of(what(), "sizes of rows", format!("{:?}", self.row_shape)));
        }
        let Some(vector) = &self.vector else {
            return match rings {
                1 => Ok(()),
                _ => Err(EpisodeError::of(what(), "one group of rows", rings)),
            };
        };
        let count = vector.channels.len();
        let mut seen = vec![false; count];
        let once = vector.groups.iter().flat_map(|group| &group.channels).all(|channel| {
            seen.get_mut(*channel).is_some_and(|seen| !std::mem::replace(seen, true))
        });
        let sources = vector.outputs.iter().all(|output| output.source.channel() < count);
        let quads = vector.groups.iter().all(|group| {
            let lanes = group.channels.iter().map(|c| vector.channels.get(*c).map(|c| c.lane));
            let lanes: Vec<_> = lanes.collect();
            let mut runs = lanes.chunk_by(|a, b| a == b);
            // The four elements of a quaternion are next to each other.
            runs.all(|run| run[0] != Some(Lane::Quaternion) || run.len().is_multiple_of(4))
        });
        let rotations = vector.groups.iter().all(|group| {
            let fits = |(at, channel): (usize, &usize)| {
                vector.outputs.iter().all(|output| match output.source {
                    Source::Rotation { quaternion, .. } if quaternion == *channel => {
                        at + 4 <= group.channels.len()
                    }
                    _ => true,
                })
            };
            group.channels.iter().enumerate().all(fits)
        });
        if once
            && quads
            && rotations
            && sources
            && vector.groups.len() == rings
            && Some(vector.len()) == step
        {
            return Ok(());
        }
        let found = format!("{} groups of {count} channels", vector.groups.len());
        Err(EpisodeError::of(what(), format!("{rings} groups that make a step"), found))
    }

    fn ring(&self, ring: usize) -> WindowRing {
        let dtype = self.row_dtypes[ring];
        let row_len = self.row_len(ring);
        let Some(vector) = &self.vector else {
            let runs = vec![Run { row_at: 0, step_at: 0, len: row_len }];
            return WindowRing { dtype, row_len, lanes: Vec::new(), stage: None, runs };
        };
        WindowRing {
            dtype,
            row_len,
            lanes: vector.lanes(ring),
            stage: vector.stages(ring, self.strategy).output,
            runs: vector.runs(ring),
        }
    }

    fn merge(&self) -> Result<Option<MergeSpec>, EpisodeError> {
        let Some(max_age_ns) = &self.max_age_ns_of_inputs else { return Ok(None) };
        let wrong = || {
            let what = format!("valid_when of '{}'", self.name);
            EpisodeError::of(what, "all, any, or numbers of inputs", &self.valid_when)
        };
        let valid_when = match &self.valid_when {
            Value::String(word) if word == "all" => ValidWhen::All,
            Value::String(word) if word == "any" => ValidWhen::Any,
            Value::Array(inputs) => {
                let bit = |input: &Value| 1u32.checked_shl(u32::try_from(input.as_u64()?).ok()?);
                let bits = inputs.iter().map(bit).try_fold(0, |bits, bit| Some(bits | bit?));
                ValidWhen::Listed(bits.filter(|bits| *bits != 0).ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        Ok(Some(MergeSpec { max_age_ns: max_age_ns.clone(), valid_when }))
    }
}
