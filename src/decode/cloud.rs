//! `sensor_msgs/PointCloud2` as a borrowed view.
//!
//! Fields are found by name, whatever their order, offset, type and byte order. Only the fields
//! that the configuration uses are looked at: a driver's extra fields may be of any kind.

use super::{DecodeError, Header, NAME_LOGGED, NAMES_LOGGED, header};
use crate::cdr::{CdrError, Reader};
use crate::config::{CloudSpec, Reduction};
use crate::stats::DropReason;

/// The fields that every cloud must have, in the order of [`CloudView::fields`].
const COORDINATES: [&str; 3] = ["x", "y", "z"];

/// Type of a point field: the constants of `sensor_msgs/msg/PointField`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the message's own
pub enum FieldType {
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Float32,
    Float64,
}

impl FieldType {
    /// From the constants of `sensor_msgs/msg/PointField`: 1 is int8, 8 is float64.
    pub const fn from_code(code: u8) -> Option<Self> {
        use FieldType::*;
        Some(match code {
            1 => Int8,
            2 => Uint8,
            3 => Int16,
            4 => Uint16,
            5 => Int32,
            6 => Uint32,
            7 => Float32,
            8 => Float64,
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub const fn size(self) -> usize {
        match self {
            FieldType::Int8 | FieldType::Uint8 => 1,
            FieldType::Int16 | FieldType::Uint16 => 2,
            FieldType::Int32 | FieldType::Uint32 | FieldType::Float32 => 4,
            FieldType::Float64 => 8,
        }
    }
}

/// Where a field stands inside a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Bytes from the start of the point.
    pub offset: usize,
    /// How the bytes are read.
    pub kind: FieldType,
}

/// A cloud whose declared size has been checked against its data, with the fields that the
/// configuration asks for.
#[derive(Clone, Copy, Debug)]
pub struct CloudView<'a> {
    /// Points per row of the cloud.
    pub width: usize,
    /// Rows of the cloud; 1 if unorganised.
    pub height: usize,
    /// Bytes from one point to the next.
    pub point_step: usize,
    /// Bytes from one row to the next.
    pub row_step: usize,
    /// Whether numbers stand most significant byte first.
    pub big_endian: bool,
    /// `x`, `y`, `z`, then the extra fields of the configuration in
    /// [`CloudSpec`](crate::config::CloudSpec) order, without repeats.
    pub fields: &'a [FieldAt],
    /// The points: `(height - 1) * row_step + width * point_step` bytes at least, unless empty.
    pub data: &'a [u8],
}

/// Whether `name` is a coordinate, which as a feature means the one in the base frame.
pub fn coordinate(name: &str) -> Option<usize> {
    COORDINATES.iter().position(|axis| *axis == name)
}

/// The fields that a configuration takes beside `x`, `y` and `z`, in its order, without repeats:
/// what [`CloudView::fields`] holds from its fourth element on.
pub fn extra_fields(spec: &CloudSpec) -> impl Iterator<Item = &str> {
    let field = |reduction| match reduction {
        &Reduction::Mean(ref name) | &Reduction::Max(ref name) => {
            coordinate(name).is_none().then_some(name.as_str())
        }
        Reduction::Count | Reduction::Occupancy => None,
    };
    spec.channels.iter().enumerate().filter_map(move |(i, reduction)| {
        let name = field(reduction)?;
        let repeated = spec.channels[..i].iter().any(|earlier| field(earlier) == Some(name));
        (!repeated).then_some(name)
    })
}

/// Reads a serialized `sensor_msgs/msg/PointCloud2`. `scratch` becomes [`CloudView::fields`].
///
/// A cloud of width or height 0 is valid and empty.
///
/// # Errors
/// - `MissingField`: `x`, `y`, `z` or a field of the configuration is not there.
/// - `Unsupported`: a used field is an array or of no known type, or a coordinate is not a float.
/// - `Malformed`: the message ends early, a used field is declared twice or reaches beyond its
///   point, or the steps and the data do not fit the declared size.
/// - `BadStamp`: see [`header`].
pub fn decode<'a>(
    message: &'a [u8],
    spec: &CloudSpec,
    scratch: &'a mut Vec<FieldAt>,
) -> Result<(Header<'a>, CloudView<'a>), DecodeError> {
    let mut reader = Reader::new(message)?;
    let header = header(&mut reader)?;
    let (height, width) = (reader.u32()?, reader.u32()?);
    let declared = Declared::read(&mut reader)?;
    let big_endian = match reader.u8()? {
        0 => false,
        1 => true,
        other => return Err(malformed(format!("is_bigendian: expected 0 or 1, found {other}"))),
    };
    let (point_step, row_step) = (reader.u32()?, reader.u32()?);
    let data = reader.bytes()?;
    reader.u8()?; // is_dense: says nothing that the points do not say themselves
    check_size(width, height, point_step, row_step, data.len())?;
    scratch.clear();
    for name in COORDINATES.into_iter().chain(extra_fields(spec)) {
        scratch.push(declared.find(name, point_step as usize)?);
    }
    let view = CloudView {
        width: width as usize,
        height: height as usize,
        point_step: point_step as usize,
        row_step: row_step as usize,
        big_endian,
        fields: scratch,
        data,
    };
    Ok((header, view))
}

fn malformed(detail: String) -> DecodeError {
    DecodeError::new(DropReason::Malformed, detail)
}

/// Whether the declared size fits the steps and the data. In 128 bits, which no product of these
/// 32-bit numbers overflows.
fn check_size(
    width: u32,
    height: u32,
    point_step: u32,
    row_step: u32,
    found: usize,
) -> Result<(), DecodeError> {
    let [columns, rows, point, row] = [width, height, point_step, row_step].map(u128::from);
    if row < columns * point {
        return Err(malformed(format!(
            "row_step: expected at least {} ({width} points of {point_step} bytes), found {row_step}",
            columns * point
        )));
    }
    if width == 0 || height == 0 {
        return Ok(());
    }
    let expected = (rows - 1) * row + columns * point;
    if (found as u128) < expected {
        return Err(malformed(format!(
            "data: expected at least {expected} bytes for {width}x{height} points, found {found}"
        )));
    }
    Ok(())
}

/// One `sensor_msgs/PointField` of a message.
struct PointField<'a> {
    name: &'a [u8],
    offset: u32,
    datatype: u8,
    count: u32,
}

/// The fields that a message declares, read again for each look-up: a handful of names is found
/// sooner than a map of them is made.
struct Declared<'a> {
    start: Reader<'a>,
    count: u32,
}

impl<'a> Declared<'a> {
    /// Takes the field list off `reader`.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = reader.u32()?;
        let start = reader.clone();
        for _ in 0..count {
            read_field(reader)?;
        }
        Ok(Declared { start, count })
    }

    fn iter(&self) -> impl Iterator<Item = PointField<'a>> {
        let mut reader = self.start.clone();
        (0..self.count).map_while(move |_| read_field(&mut reader).ok())
    }

    /// The place of field `name`, checked against the point's size.
    fn find(&self, name: &str, point_step: usize) -> Result<FieldAt, DecodeError> {
        let mut matches = self.iter().filter(|field| field.name == name.as_bytes());
        let field = matches.next().ok_or_else(|| self.missing(name))?;
        if matches.next().is_some() {
            return Err(malformed(format!("field {name}: expected one, found several")));
        }
        let unsupported = |expected: &str, found: u32| {
            let detail = format!("field {name}: expected {expected}, found {found}");
            DecodeError::new(DropReason::Unsupported, detail)
        };
        // A count of 0 means 1 to PCL, and some drivers rely on it.
        if field.count > 1 {
            return Err(unsupported("count 1", field.count));
        }
        let datatype = u32::from(field.datatype);
        let kind = FieldType::from_code(field.datatype)
            .ok_or_else(|| unsupported("datatype 1 to 8", datatype))?;
        let is_float = matches!(kind, FieldType::Float32 | FieldType::Float64);
        if coordinate(name).is_some() && !is_float {
            return Err(unsupported("datatype 7 (float32) or 8 (float64)", datatype));
        }
        let (offset, size) = (field.offset as usize, kind.size());
        if point_step.checked_sub(size).is_none_or(|last| offset > last) {
            return Err(malformed(format!(
                "field {name}: expected {size} bytes at offset {offset} inside point_step, \
                 found point_step {point_step}"
            )));
        }
        Ok(FieldAt { offset, kind })
    }

    fn missing(&self, name: &str) -> DecodeError {
        let shorten = |name: &'a [u8]| &name[..name.len().min(NAME_LOGGED)];
        let names = self.iter().take(NAMES_LOGGED).map(|field| shorten(field.name));
        let found: Vec<_> = names.map(String::from_utf8_lossy).collect();
        let more = if self.count as usize > NAMES_LOGGED { ", ..." } else { "" };
        let detail = format!("expected field {name}, found [{}{more}]", found.join(", "));
        DecodeError::new(DropReason::MissingField, detail)
    }
}

fn read_field<'a>(reader: &mut Reader<'a>) -> Result<PointField<'a>, CdrError> {
    Ok(PointField {
        name: reader.string_bytes()?,
        offset: reader.u32()?,
        datatype: reader.u8()?,
        count: reader.u32()?,
    })
}

#[cfg(test)]
mod tests;
