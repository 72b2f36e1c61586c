//! `sensor_msgs/msg/PointCloud2`.
//!
//! Fields are found by name, whatever their order, offset, type and byte order. Only the selected
//! fields are looked at: a driver's extra fields may be of any kind.

use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::{CdrError, Reader};
use crate::rejected::NAME_LOGGED;
use crate::rejected::NAMES_LOGGED;
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, Sample};
use crate::spec::Selection;
use robocache_ops::voxelize::{
    COORDINATES, FieldAt, FieldType, IDENTITY, PointsView, Sweep, movable,
};

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "sensor_msgs/msg/PointCloud2",
    content: Content::Points,
    open: |selection| match selection {
        Selection::Points { extra, time, .. } => {
            let extra = extra.clone();
            let time = time.clone();
            Some(Box::new(PointCloud2Input { extra, time, fields: Vec::new() }))
        }
        _ => None,
    },
};

struct PointCloud2Input {
    extra: Vec<String>,
    /// The field with the time of a point, if it is wanted.
    time: Option<String>,
    fields: Vec<FieldAt>,
}

impl Input for PointCloud2Input {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let Some(sink) = sink.admit(&header(&mut reader)?) else { return Ok(()) };
        let view = points(&mut reader, &self.extra, self.time.as_deref(), &mut self.fields)?;
        sink.sample(0, Sample::Points(view));
        Ok(())
    }
}

/// Reads a serialized `sensor_msgs/msg/PointCloud2`. `scratch` becomes [`PointsView::fields`]: the
/// coordinates, then `extra`.
///
/// A cloud of width or height 0 is valid and empty. Some drivers give the size of the cloud as `row_step`, or 0.
/// If `row_step` is impossible, and `data` has exactly the length of all points, there is nothing between rows.
///
/// # Errors
/// - `MissingField`: `x`, `y`, `z` or a field of the configuration is missing.
/// - `Unsupported`: a used field is an array or of no known type.
/// - `Malformed`: the message ends early, a used field is declared twice or reaches beyond its
///   point, or the steps and the data do not fit the declared size.
/// - `BadStamp`: see [`header`].
pub fn decode<'a>(
    message: &'a [u8],
    extra: &[String],
    scratch: &'a mut Vec<FieldAt>,
) -> Result<(Header<'a>, PointsView<'a>), Rejected> {
    let mut reader = Reader::new(message)?;
    let header = header(&mut reader)?;
    Ok((header, points(&mut reader, extra, None, scratch)?))
}

/// Reads what is behind the header; see [`decode`]. `time` is the field with the time of a point, if it is wanted. The
/// sweep then has no motion yet.
///
/// # Errors
/// Those of [`decode`]. `Unsupported` also if the points cannot be moved ([`movable`]).
fn points<'a>(
    reader: &mut Reader<'a>,
    extra: &[String],
    time: Option<&str>,
    scratch: &'a mut Vec<FieldAt>,
) -> Result<PointsView<'a>, Rejected> {
    let height = reader.u32()?;
    let width = reader.u32()?;
    let declared = Declared::read(reader)?;
    let big_endian = match reader.u8()? {
        0 => false,
        1 => true,
        other => return Err(malformed(format!("is_bigendian: expected 0 or 1, found {other}"))),
    };
    let point_step = reader.u32()?;
    let row_step = reader.u32()?;
    let data = reader.bytes()?;
    reader.u8()?; // is_dense: ignored, because the encoder checks every point
    let row_step = row_step_of([width, height], [point_step, row_step], data.len())?;
    scratch.clear();
    for name in COORDINATES.into_iter().chain(extra.iter().map(String::as_str)) {
        scratch.push(declared.find(name, point_step as usize)?);
    }
    let sweep = time.map(|name| declared.sweep(name, point_step as usize, scratch)).transpose()?;
    let view = PointsView {
        width: width as usize,
        height: height as usize,
        point_step: point_step as usize,
        row_step,
        big_endian,
        fields: scratch,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep,
        data,
    };
    Ok(view)
}

fn malformed(detail: String) -> Rejected {
    Rejected::new(DropReason::Malformed, detail)
}

/// The bytes from one row to the next: those that the message declares, if the data can have them. It computes in
/// 128 bits, so that no product of the 32-bit numbers overflows.
fn row_step_of(
    [width, height]: [u32; 2],
    [point_step, row_step]: [u32; 2],
    found: usize,
) -> Result<usize, Rejected> {
    let [columns, rows, point, row] = [width, height, point_step, row_step].map(u128::from);
    let line = columns * point;
    let is_empty = width == 0 || height == 0;
    let expected = if is_empty { 0 } else { (rows - 1) * row + line };
    let is_too_short = row < line;
    if !is_too_short && found as u128 >= expected {
        return Ok(row_step as usize);
    }
    if found as u128 == rows * line
        && let Ok(packed) = usize::try_from(line)
    {
        return Ok(packed);
    }
    Err(malformed(match is_too_short {
        true => format!(
            "row_step: expected at least {line} ({width} points of {point_step} bytes), found {row_step}"
        ),
        false => format!(
            "data: expected at least {expected} bytes for {width}x{height} points, found {found}"
        ),
    }))
}

/// One `sensor_msgs/PointField` of a message.
struct PointField<'a> {
    name: &'a [u8],
    offset: u32,
    datatype: u8,
    count: u32,
}

/// The fields that a message declares. Each look-up reads them again: there are few, so that this
/// is faster than to make a map.
struct Declared<'a> {
    start: Reader<'a>,
    count: u32,
}

impl<'a> Declared<'a> {
    /// Reads the list of fields. `reader` is behind it afterwards.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Rejected> {
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
    fn find(&self, name: &str, point_step: usize) -> Result<FieldAt, Rejected> {
        let mut matches = self.iter().filter(|field| field.name == name.as_bytes());
        let field = matches.next().ok_or_else(|| self.missing(name))?;
        if matches.next().is_some() {
            return Err(malformed(format!("field {name}: expected one, found several")));
        }
        let unsupported = |expected: &str, found: u32| {
            let detail = format!("field {name}: expected {expected}, found {found}");
            Rejected::new(DropReason::Unsupported, detail)
        };
        // A count of 0 means 1 to PCL, and some drivers rely on it.
        if field.count > 1 {
            return Err(unsupported("count 1", field.count));
        }
        let datatype = u32::from(field.datatype);
        let kind = FieldType::from_code(field.datatype)
            .ok_or_else(|| unsupported("datatype 1 to 8", datatype))?;
        let offset = field.offset as usize;
        let size = kind.size();
        if point_step.checked_sub(size).is_none_or(|last| offset > last) {
            return Err(malformed(format!(
                "field {name}: expected {size} bytes at offset {offset} inside point_step, \
                 found point_step {point_step}"
            )));
        }
        Ok(FieldAt { offset, kind })
    }

    /// The sweep of points whose times are in field `name`. Its motion is unknown here.
    fn sweep(
        &self,
        name: &str,
        point_step: usize,
        fields: &[FieldAt],
    ) -> Result<Sweep<'static>, Rejected> {
        let time = self.find(name, point_step)?;
        if !movable(fields) {
            let detail = "fields x, y, z: expected all float32 or all float64, and no byte of another field, to deskew them";
            return Err(Rejected::new(DropReason::Unsupported, detail));
        }
        Ok(Sweep { time, origin: 0.0, rate: 0.0, knots: &[] })
    }

    fn missing(&self, name: &str) -> Rejected {
        let shorten = |name: &'a [u8]| &name[..name.len().min(NAME_LOGGED)];
        let names = self.iter().take(NAMES_LOGGED).map(|field| shorten(field.name));
        let found: Vec<_> = names.map(String::from_utf8_lossy).collect();
        let more = if self.count as usize > NAMES_LOGGED { ", ..." } else { "" };
        let detail = format!("expected field {name}, found [{}{more}]", found.join(", "));
        Rejected::new(DropReason::MissingField, detail)
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
