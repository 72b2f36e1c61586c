//! `sensor_msgs/msg/LaserScan`.
//!
//! A ray becomes a point in the plane z = 0 of the scanner: `x = r cos(a)`, `y = r sin(a)`, computed in
//! `f64` and rounded once. A ray without a return becomes a point of NaN, which the encoder drops and
//! counts: one that is NaN or infinite (REP 117), or outside of `range_min` to `range_max`. So point `i`
//! is ray `i`, whatever the rays before it measured.

use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::{F32Sequence, Reader};
use crate::rejected::{DropReason, Rejected};
use crate::sample::Sample;
use crate::spec::Selection;
use robocache_ops::voxelize::{FieldAt, FieldType, IDENTITY, PointsView, Sweep};

/// Name of the type.
pub const NAME: &str = "sensor_msgs/msg/LaserScan";

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: NAME,
    content: Content::Points,
    open: |selection| match selection {
        Selection::Points { extra, time, most } => {
            Some(Box::new(LaserScanInput::new(extra, time.as_deref(), *most)?))
        }
        _ => None,
    },
};

/// The fields that points of a scan have beside their coordinates: `intensity`; and `t`, the seconds from
/// the stamp to the ray.
pub const FIELDS: [&str; 2] = ["intensity", "t"];

/// One of [`FIELDS`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Intensity,
    Time,
}

struct LaserScanInput {
    extra: Vec<Extra>,
    /// Rays of the largest scan.
    most: usize,
    fields: Vec<FieldAt>,
    /// The field with the time of a point, for a deskew. It is behind the others.
    time: Option<FieldAt>,
    /// Directions of the rays.
    rays: Rays,
    /// The points of one scan.
    points: Vec<u8>,
}

impl LaserScanInput {
    /// `None` if a scan has no such field.
    fn new(extra: &[String], time: Option<&str>, most: usize) -> Option<Self> {
        let known = |name: &String| match FIELDS.iter().position(|field| field == name)? {
            0 => Some(Extra::Intensity),
            _ => Some(Extra::Time),
        };
        if time.is_some_and(|name| name != FIELDS[1]) {
            return None;
        }
        let extra: Vec<_> = extra.iter().map(known).collect::<Option<_>>()?;
        let field = |at| FieldAt { offset: 4 * at, kind: FieldType::Float32 };
        let fields = (0..3 + extra.len()).map(field).collect();
        let time = time.map(|_| field(3 + extra.len()));
        Some(LaserScanInput {
            extra,
            most,
            fields,
            time,
            rays: Rays::default(),
            points: Vec::new(),
        })
    }

    /// Makes the points of a scan.
    fn project(&mut self, scan: &Scan<'_>) {
        self.rays.point([scan.angle_min, scan.angle_increment], scan.ranges.len());
        self.points.clear();
        let directions = self.rays.directions.iter().enumerate();
        for ((i, [cos, sin]), range) in directions.zip(scan.ranges.iter()) {
            // False for NaN as well.
            let returned = range.is_finite() && range >= scan.range_min && range <= scan.range_max;
            let r = if returned { f64::from(range) } else { f64::NAN };
            let mut put = |value: f32| self.points.extend_from_slice(&value.to_le_bytes());
            put((r * cos) as f32);
            put((r * sin) as f32);
            put(0.0);
            let time = (i as f64 * f64::from(scan.time_increment)) as f32;
            for extra in &self.extra {
                put(match extra {
                    Extra::Intensity => scan.intensities.get(i).unwrap_or(f32::NAN),
                    Extra::Time => time,
                });
            }
            if self.time.is_some() {
                put(time);
            }
        }
    }
}

impl Input for LaserScanInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let Some(sink) = sink.admit(&header(&mut reader)?) else { return Ok(()) };
        let scan = Scan::read(&mut reader)?;
        let found = scan.ranges.len();
        if found > self.most {
            let detail = format!("ranges: expected at most {} points, found {found}", self.most);
            return Err(Rejected::new(DropReason::TooLarge, detail));
        }
        if self.extra.contains(&Extra::Intensity) && scan.intensities.is_empty() && found > 0 {
            let detail = "expected field intensity, found a scan without intensities";
            return Err(Rejected::new(DropReason::MissingField, detail));
        }
        self.project(&scan);
        let point_step = 4 * (self.fields.len() + usize::from(self.time.is_some()));
        let sweep = self.time.map(|time| Sweep { time, origin: 0.0, rate: 0.0, knots: &[] });
        let view = PointsView {
            width: found,
            height: 1,
            point_step,
            row_step: point_step * found,
            big_endian: false,
            fields: &self.fields,
            t_base_sensor: IDENTITY,
            t_shapes: &[],
            sweep,
            data: &self.points,
        };
        sink.sample(0, Sample::Points(view));
        Ok(())
    }
}

/// Directions of the last scan's rays. The rays of the next one mostly point there too.
#[derive(Default)]
struct Rays {
    /// `angle_min` and `angle_increment` \[rad\].
    angles: [f32; 2],
    /// Cosine and sine of each ray.
    directions: Vec<[f64; 2]>,
}

impl Rays {
    fn point(&mut self, angles: [f32; 2], count: usize) {
        if self.angles != angles {
            self.directions.clear();
            self.angles = angles;
        }
        let [first, step] = angles.map(f64::from);
        self.directions.truncate(count);
        for i in self.directions.len()..count {
            let angle = first + i as f64 * step;
            // The same bits on every machine, which the platform's library does not promise.
            self.directions.push([libm::cos(angle), libm::sin(angle)]);
        }
    }
}

/// The parts of a scan that count, checked against each other.
struct Scan<'a> {
    angle_min: f32,
    angle_increment: f32,
    time_increment: f32,
    range_min: f32,
    range_max: f32,
    ranges: F32Sequence<'a>,
    /// As many as there are ranges, or none.
    intensities: F32Sequence<'a>,
}

impl<'a> Scan<'a> {
    /// Reads what is behind the header.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Rejected> {
        let angle_min = finite("angle_min", reader.f32()?)?;
        reader.f32()?; // angle_max follows from the number of rays
        let angle_increment = finite("angle_increment", reader.f32()?)?;
        let time_increment = finite("time_increment", reader.f32()?)?;
        reader.f32()?; // scan_time
        let limit = |name: &str, value: f32| match value.is_nan() {
            true => Err(malformed(format!("{name}: expected a distance, found NaN"))),
            false => Ok(value),
        };
        let range_min = limit("range_min", reader.f32()?)?;
        let range_max = limit("range_max", reader.f32()?)?;
        let ranges = reader.f32_sequence()?;
        let intensities = reader.f32_sequence()?;
        let expected = ranges.len();
        let found = intensities.len();
        if found != 0 && found != expected {
            let expected = format!("intensities: expected none or {expected}, one for each range");
            return Err(malformed(format!("{expected}, found {found}")));
        }
        Ok(Scan {
            angle_min,
            angle_increment,
            time_increment,
            range_min,
            range_max,
            ranges,
            intensities,
        })
    }
}

fn finite(name: &str, value: f32) -> Result<f32, Rejected> {
    match value.is_finite() {
        true => Ok(value),
        false => Err(malformed(format!("{name}: expected a finite number, found {value}"))),
    }
}

fn malformed(detail: String) -> Rejected {
    Rejected::new(DropReason::Malformed, detail)
}

#[cfg(test)]
mod tests;
