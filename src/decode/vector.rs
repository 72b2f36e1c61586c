//! Messages that become a flat vector of `f32`.
//!
//! Joints are found by name, whatever their order in the message. A value that is NaN or infinite
//! in a field that the row takes drops the whole message: half a robot state is not a state.

use super::{DecodeError, Header, NAME_LOGGED, NAMES_LOGGED, header};
use crate::cdr::{F64Sequence, Reader};
use crate::config::{VectorField, VectorMessage, VectorSpec};
use crate::dtype::DType;
use crate::stats::DropReason;

/// A quaternion whose squared norm is off by more than this is not a rotation and is dropped.
const NORM_TOLERANCE: f64 = 0.1;
/// One that is off by less than this is unit to the precision of `f32` and is taken as it is.
const NORM_EXACT: f64 = 1e-6;

/// Decodes the messages of one stream.
#[derive(Clone, Debug)]
pub struct VectorDecoder {
    spec: VectorSpec,
    limit: f64,
    joints: JointOrder,
    /// Fixed-size messages: all values of the message, in its own order.
    values: Vec<f64>,
}

impl VectorDecoder {
    /// A decoder of rows that are stored as `dtype`.
    pub fn new(spec: &VectorSpec, dtype: DType) -> Self {
        // 1e38 rather than f32::MAX, so that the difference of two values cannot overflow.
        let limit = if dtype == DType::F16 { 65_504.0 } else { 1e38 };
        VectorDecoder {
            spec: spec.clone(),
            limit,
            joints: JointOrder::default(),
            values: Vec::new(),
        }
    }

    /// Decodes a serialized message into `row` (`spec.dim()` elements).
    pub fn decode<'a>(
        &mut self,
        message: &'a [u8],
        row: &mut [f32],
    ) -> Result<Header<'a>, DecodeError> {
        let mut reader = Reader::new(message)?;
        let header = header(&mut reader)?;
        if self.spec.message == VectorMessage::JointState {
            self.joint_state(&mut reader, row)?;
        } else {
            self.fixed(&mut reader, row)?;
        }
        Ok(header)
    }

    fn joint_state(&mut self, reader: &mut Reader<'_>, row: &mut [f32]) -> Result<(), DecodeError> {
        let named = self.joints.resolve(reader, &self.spec.joints)?;
        let position = reader.f64_sequence()?;
        let velocity = reader.f64_sequence()?;
        let effort = reader.f64_sequence()?;
        let count = self.spec.joints.len();
        for (field, out) in self.spec.fields.iter().zip(row.chunks_exact_mut(count)) {
            let name = field.name();
            let values = match field {
                VectorField::Velocity => velocity,
                VectorField::Effort => effort,
                _ => position,
            };
            check_joint_values(name, values, named)?;
            for (joint, (out, at)) in out.iter_mut().zip(&self.joints.place).enumerate() {
                let value = values.get(*at).unwrap_or(f64::NAN);
                *out =
                    narrow(value, self.limit, || format!("{name} of {}", self.spec.joints[joint]))?;
            }
        }
        Ok(())
    }

    fn fixed(&mut self, reader: &mut Reader<'_>, row: &mut [f32]) -> Result<(), DecodeError> {
        self.values.clear();
        read_fixed(self.spec.message, &self.spec.fields, reader, &mut self.values)?;
        let all = self.spec.message.fields();
        let mut row = row;
        for field in &self.spec.fields {
            let start = all.iter().take_while(|f| *f != field).map(|f| width(*f)).sum::<usize>();
            let values = &mut self.values[start..start + width(*field)];
            if *field == VectorField::Orientation {
                normalise(values)?;
            }
            let (out, rest) = row.split_at_mut(values.len());
            for (out, value) in out.iter_mut().zip(values) {
                *out = narrow(*value, self.limit, || field.name().to_owned())?;
            }
            row = rest;
        }
        Ok(())
    }
}

/// Elements of a field of a fixed-size message.
fn width(field: VectorField) -> usize {
    if field == VectorField::Orientation { 4 } else { 3 }
}

/// Reads all fields of a fixed-size message into `values`, in the order of
/// [`VectorMessage::fields`].
fn read_fixed(
    message: VectorMessage,
    wanted: &[VectorField],
    reader: &mut Reader<'_>,
    values: &mut Vec<f64>,
) -> Result<(), DecodeError> {
    if message == VectorMessage::Odometry {
        reader.string_bytes()?; // child_frame_id
    }
    for field in message.fields() {
        for _ in 0..width(*field) {
            values.push(reader.f64()?);
        }
        match (message, field) {
            (VectorMessage::Imu, _) => {
                // sensor_msgs/Imu: -1 in the first element says that there is no estimate.
                let unknown = reader.f64()? == -1.0;
                reader.skip(8, 8 * 8)?;
                if unknown && wanted.contains(field) {
                    let detail =
                        format!("{}: its covariance says that there is no estimate", field.name());
                    return Err(DecodeError::new(DropReason::MissingField, detail));
                }
            }
            // The covariance after a pose or a twist.
            (VectorMessage::Odometry, VectorField::Orientation) => reader.skip(8, 36 * 8)?,
            (VectorMessage::Odometry, VectorField::Angular) => reader.skip(8, 36 * 8)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_joint_values(
    name: &str,
    values: F64Sequence<'_>,
    named: usize,
) -> Result<(), DecodeError> {
    if values.is_empty() && named > 0 {
        let detail = format!("{name}: expected a value for each of {named} joints, found none");
        return Err(DecodeError::new(DropReason::MissingField, detail));
    }
    if values.len() != named {
        let found = values.len();
        let detail = format!("{name}: expected a value for each of {named} joints, found {found}");
        return Err(DecodeError::new(DropReason::Malformed, detail));
    }
    Ok(())
}

fn narrow(value: f64, limit: f64, name: impl Fn() -> String) -> Result<f32, DecodeError> {
    if !value.is_finite() {
        let detail = format!("{}: expected a finite number, found {value}", name());
        return Err(DecodeError::new(DropReason::NonFinite, detail));
    }
    if value.abs() > limit {
        let detail = format!("{}: expected at most {limit:e} in size, found {value:e}", name());
        return Err(DecodeError::new(DropReason::OutOfRange, detail));
    }
    Ok(value as f32)
}

/// Makes a quaternion unit. All zeros is what an uninitialised message holds; it is no rotation.
fn normalise(quaternion: &mut [f64]) -> Result<(), DecodeError> {
    let square: f64 = quaternion.iter().map(|q| q * q).sum();
    if !square.is_finite() {
        let detail = "orientation: expected a unit quaternion, found a non-finite one";
        return Err(DecodeError::new(DropReason::NonFinite, detail));
    }
    if (square - 1.0).abs() > NORM_TOLERANCE {
        let detail =
            format!("orientation: expected a unit quaternion, found one of norm {}", square.sqrt());
        return Err(DecodeError::new(DropReason::OutOfRange, detail));
    }
    if (square - 1.0).abs() > NORM_EXACT {
        let norm = square.sqrt();
        quaternion.iter_mut().for_each(|q| *q /= norm);
    }
    Ok(())
}

/// Where the configured joints stand in the messages of a stream. Publishers keep their order, so
/// the names of the last message are remembered and only compared.
#[derive(Clone, Debug, Default)]
struct JointOrder {
    names: Vec<Vec<u8>>,
    /// For every configured joint, its place in the message. Empty until resolved.
    place: Vec<usize>,
}

impl JointOrder {
    /// Reads the names of a message; returns how many there are.
    fn resolve(
        &mut self,
        reader: &mut Reader<'_>,
        joints: &[String],
    ) -> Result<usize, DecodeError> {
        let count = reader.u32()? as usize;
        let mut same = self.place.len() == joints.len() && self.names.len() == count;
        for i in 0..count {
            let name = reader.string_bytes()?;
            if same && self.names[i] != name {
                same = false;
            }
            if !same {
                // Every name read so far equals the remembered one, up to here.
                self.names.truncate(i);
                self.names.push(name.to_vec());
                self.place.clear();
            }
        }
        if !same {
            self.names.truncate(count);
            self.place.clear();
            for joint in joints {
                let place = self.find(joint)?;
                self.place.push(place);
            }
        }
        Ok(count)
    }

    fn find(&self, joint: &str) -> Result<usize, DecodeError> {
        let mut places = (0..self.names.len()).filter(|i| self.names[*i] == joint.as_bytes());
        let Some(first) = places.next() else {
            let names = self.names.iter().take(NAMES_LOGGED);
            let found: Vec<_> = names
                .map(|name| String::from_utf8_lossy(&name[..name.len().min(NAME_LOGGED)]))
                .collect();
            let more = if self.names.len() > NAMES_LOGGED { ", ..." } else { "" };
            let found = found.join(", ");
            let detail = format!("name: expected joint {joint}, found {found}{more}");
            return Err(DecodeError::new(DropReason::MissingField, detail));
        };
        if places.next().is_some() {
            let detail = format!("name: expected joint {joint} once, found it repeatedly");
            return Err(DecodeError::new(DropReason::Malformed, detail));
        }
        Ok(first)
    }
}

#[cfg(test)]
#[path = "vector_tests.rs"]
mod tests;
