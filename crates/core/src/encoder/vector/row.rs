//! Makes a vector row from numbers. Every backend does this before it stores the row. Operators that
//! may act on rows do so here, in `f64`.

use crate::rejected::{DropReason, Rejected};
use robocache_ops::dtype::DType;
use robocache_ops::operators::{self, Stages};
use robocache_ops::operators::{Channel, VectorSpec};
use robocache_ops::resample::Lane;

/// If a quaternion's squared norm differs from 1 by more than this, its sample is dropped.
const NORM_TOLERANCE: f64 = 0.1;
/// Greatest size of a value in `f32`. It is not `f32::MAX`, so that the difference of two values cannot
/// overflow.
const ROW_LIMIT: f64 = 1e38;
/// If it differs by less than this, the quaternion is unit to the precision of `f32` and is taken
/// as it is.
const NORM_EXACT: f64 = 1e-6;

/// Checks the samples of one group and rounds them to `f32`.
///
/// If one number is NaN or infinite, the whole sample is dropped: half a robot state is no state.
#[derive(Clone, Debug)]
pub struct VectorEncoder {
    channels: Vec<Channel>,
    /// Index of each quaternion's first element.
    quaternions: Vec<usize>,
    /// Greatest size of a value of the row, and of what is made of it.
    limit: f64,
    output_limit: f64,
    stages: Stages,
    /// Steps of a window.
    steps: usize,
    values: Vec<f64>,
    row: Vec<f32>,
}

impl VectorEncoder {
    /// Makes an encoder for the samples of one group, whose rows are stored as `dtype`.
    pub fn new(spec: &VectorSpec, group: usize, dtype: DType) -> Self {
        let channels = spec.groups[group].channels.iter().map(|at| spec.channels[*at].clone());
        let channels: Vec<_> = channels.collect();
        let mut quaternions: Vec<usize> = Vec::new();
        for (at, channel) in channels.iter().enumerate() {
            let inside = quaternions.last().is_some_and(|start| at < start + 4);
            if channel.lane == Lane::Quaternion && !inside {
                quaternions.push(at);
            }
        }
        let limit = if dtype == DType::F16 { 65_504.0 } else { ROW_LIMIT };
        VectorEncoder {
            channels,
            quaternions,
            limit,
            output_limit: limit,
            stages: Stages::default(),
            steps: 1,
            values: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Adds operators, for windows of `steps` steps.
    #[must_use]
    pub fn with(mut self, stages: Stages, steps: usize) -> Self {
        self.steps = steps;
        if stages.output.is_some() {
            self.limit = ROW_LIMIT;
        }
        self.stages = stages;
        self
    }

    /// Returns the row of a sample, valid until the next call.
    ///
    /// # Errors
    /// `Malformed` if the number of elements is wrong, and `NonFinite` for NaN and infinity.
    /// `OutOfRange` for a value that the element type cannot hold and for a quaternion that is far
    /// from unit.
    pub fn encode(&mut self, sample: &[f64]) -> Result<&[f32], Rejected> {
        if sample.len() != self.channels.len() {
            let expected = self.channels.len();
            let found = sample.len();
            let detail = format!("sample: expected {expected} numbers, found {found}");
            return Err(Rejected::new(DropReason::Malformed, detail));
        }
        let values = if self.quaternions.is_empty() && self.stages.encode.is_empty() {
            sample
        } else {
            self.values.clear();
            self.values.extend_from_slice(sample);
            for start in &self.quaternions {
                let name = self.channels[*start].name.rsplit_once('.').map_or("", |(name, _)| name);
                normalise(name, &mut self.values[*start..start + 4])?;
            }
            for (at, operators) in self.stages.encode.iter().enumerate() {
                // First, because a limit would make a number of NaN.
                if !self.values[at].is_finite() {
                    return Err(self.refuse(at, self.values[at]));
                }
                self.values[at] = operators::encode(operators, self.values[at]);
            }
            &self.values
        };
        // The check of all values vectorises. Only if it fails is the wrong value looked for.
        let beyond = |value: &f64| value.is_nan() | (value.abs() > self.limit);
        if values.iter().fold(false, |any, value| any | beyond(value))
            && let Some(at) = values.iter().position(beyond)
        {
            return Err(self.refuse(at, values[at]));
        }
        if let Some(output) = &self.stages.output {
            // No value at a target is beyond what its rows can reach.
            let mut wrong = None;
            output.reach(values, self.steps, |value| {
                if value.is_nan() || value.abs() > self.output_limit {
                    wrong = Some(value);
                }
            });
            if let Some(value) = wrong {
                let limit = self.output_limit;
                let detail = format!(
                    "after its operators: expected at most {limit:e} in size, found up to {value:e}"
                );
                return Err(Rejected::new(DropReason::OutOfRange, detail));
            }
        }
        self.row.clear();
        self.row.extend(values.iter().map(|value| *value as f32));
        Ok(&self.row)
    }

    /// Says why a sample with this value is dropped.
    fn refuse(&self, at: usize, value: f64) -> Rejected {
        let name = &self.channels[at].name;
        let limit = self.limit;
        if value.is_finite() {
            let detail = format!("{name}: expected at most {limit:e} in size, found {value:e}");
            return Rejected::new(DropReason::OutOfRange, detail);
        }
        let detail = format!("{name}: expected a finite number, found {value}");
        Rejected::new(DropReason::NonFinite, detail)
    }
}

/// Scales a quaternion to unit norm. All zeros, as in an uninitialised message, is no rotation.
fn normalise(name: &str, quaternion: &mut [f64]) -> Result<(), Rejected> {
    let square: f64 = quaternion.iter().map(|q| q * q).sum();
    if !square.is_finite() {
        let detail = format!("{name}: expected a unit quaternion, found a non-finite one");
        return Err(Rejected::new(DropReason::NonFinite, detail));
    }
    if (square - 1.0).abs() > NORM_TOLERANCE {
        let norm = square.sqrt();
        let detail = format!("{name}: expected a unit quaternion, found one of norm {norm}");
        return Err(Rejected::new(DropReason::OutOfRange, detail));
    }
    if (square - 1.0).abs() > NORM_EXACT {
        let norm = square.sqrt();
        quaternion.iter_mut().for_each(|q| *q /= norm);
    }
    Ok(())
}
