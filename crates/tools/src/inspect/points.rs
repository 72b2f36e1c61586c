//! Places and fields of the points of a topic's clouds.

use serde::Serialize;

use robocache_core::cdr::Reader;
use robocache_core::input::{self, laser_scan, point_cloud2};
use robocache_core::rejected::Rejected;
use robocache_ops::voxelize::{FieldAt, FieldType};

/// Which clouds are examined: the first, then one in this many more each time.
const LOOKED: usize = 64;
/// Most points that are looked at of a cloud.
const PER_CLOUD: usize = 1024;
/// Most fields that are kept.
const MOST_FIELDS: usize = 64;
/// Names that drivers give to the time of a point.
const TIME_FIELDS: [&str; 6] =
    ["t", "time", "timestamp", "time_stamp", "offset_time", "point_time_offset"];

/// Looks at clouds.
#[derive(Clone, Debug, Default)]
pub(super) struct Clouds {
    seen: u64,
    /// The next cloud whose points are looked at, and how many are skipped after it.
    next: u64,
    step: u64,
    looked: usize,
    fields: Vec<FieldForm>,
    /// Clouds whose fields differ from the first one's.
    other_fields: u64,
    /// Least and greatest number.
    points: Option<[usize; 2]>,
    /// Coordinates of finite points.
    places: Vec<[f32; 3]>,
    looked_points: u64,
    non_finite: u64,
    time: Option<TimeField>,
}

/// A field of the points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldForm {
    /// Its name.
    pub name: String,
    /// Its datatype; `None` if there is no such type.
    pub datatype: Option<&'static str>,
    /// Elements of it.
    pub count: u32,
    #[serde(skip)]
    offset: u32,
    #[serde(skip)]
    kind: Option<FieldType>,
}

/// The field with the time of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeField {
    /// Its name.
    pub name: String,
    /// The least and the greatest value.
    pub range: [f64; 2],
    /// The longest time between two points of a cloud, in the field's unit.
    pub sweep: f64,
    /// Its unit in seconds, as the values suggest; `None` if they suggest none or several.
    pub unit_s: Option<f64>,
    /// True if the field counts from the zero of a clock rather than from the header's stamp.
    pub is_absolute: bool,
}

/// Report of inspect about clouds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CloudReport {
    /// The fields of the first cloud; none for scans.
    pub fields: Vec<FieldForm>,
    /// Clouds with other fields.
    pub other_fields: u64,
    /// Points of the smallest and the largest cloud.
    pub points: [usize; 2],
    /// 1 % and 99 % of the coordinates x, y and z in the sensor's frame \[m\].
    pub reach_m: Option<[[f32; 2]; 3]>,
    /// Share of the points that are NaN or infinite.
    pub non_finite_share: f64,
    /// The field with the time of a point.
    pub time: Option<TimeField>,
}

impl Clouds {
    /// Looks at a message.
    pub(super) fn take(&mut self, ros_type: &str, message: &[u8]) -> Result<(), Rejected> {
        let is_due = self.seen == self.next && self.looked < LOOKED;
        self.seen += 1;
        if is_due {
            // One of all, then fewer and fewer: early and late clouds of a bag of any length.
            self.step += self.step / 8 + 1;
            self.next += self.step;
            self.looked += 1;
        }
        match ros_type == laser_scan::NAME {
            true => self.scan(message, is_due),
            false => self.cloud(message, is_due),
        }
    }

    fn count(&mut self, points: usize) {
        let [least, most] = self.points.unwrap_or([points, points]);
        self.points = Some([least.min(points), most.max(points)]);
    }

    fn place(&mut self, place: [f64; 3]) {
        self.looked_points += 1;
        match place.iter().all(|x| x.is_finite()) {
            true => self.places.push(place.map(|x| x as f32)),
            false => self.non_finite += 1,
        }
    }

    fn scan(&mut self, message: &[u8], is_due: bool) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        input::header(&mut reader)?;
        let [first, _, increment] = [reader.f32()?, reader.f32()?, reader.f32()?];
        let [per_ray, _, least, most] =
            [reader.f32()?, reader.f32()?, reader.f32()?, reader.f32()?];
        let ranges = reader.f32_sequence()?;
        self.count(ranges.len());
        if !is_due {
            return Ok(());
        }
        for at in (0..ranges.len()).step_by(1 + ranges.len() / PER_CLOUD) {
            let range = ranges.get(at).unwrap_or(f32::NAN);
            let range = if range >= least && range <= most { f64::from(range) } else { f64::NAN };
            let angle = f64::from(first) + at as f64 * f64::from(increment);
            self.place([range * libm::cos(angle), range * libm::sin(angle), 0.0]);
        }
        if per_ray > 0.0 {
            let sweep = f64::from(per_ray) * ranges.len().saturating_sub(1) as f64;
            let field = || TimeField {
                name: "t".into(),
                range: [0.0, sweep],
                sweep,
                unit_s: Some(1.0),
                is_absolute: false,
            };
            let time = self.time.get_or_insert_with(field);
            time.sweep = time.sweep.max(sweep);
            time.range[1] = time.range[1].max(sweep);
        }
        Ok(())
    }

    fn cloud(&mut self, message: &[u8], is_due: bool) -> Result<(), Rejected> {
        let fields = fields(message)?;
        if self.fields.is_empty() {
            self.fields.clone_from(&fields);
        } else {
            self.other_fields += u64::from(self.fields != fields);
        }
        let mut scratch = Vec::new();
        let (_, view) = point_cloud2::decode(message, &[], &mut scratch)?;
        let points = view.width * view.height;
        self.count(points);
        if !is_due {
            return Ok(());
        }
        let time = fields.iter().find(|field| {
            TIME_FIELDS.contains(&field.name.as_str()) && field.count <= 1 && field.kind.is_some()
        });
        let time = time.and_then(|field| {
            Some((field.name.clone(), FieldAt { offset: field.offset as usize, kind: field.kind? }))
        });
        let mut times = [f64::INFINITY, f64::NEG_INFINITY];
        for at in (0..points).step_by(1 + points / PER_CLOUD).chain(points.checked_sub(1)) {
            let start = at / view.width * view.row_step + at % view.width * view.point_step;
            let Some(point) = view.data.get(start..start + view.point_step) else { break };
            let value = |field: FieldAt| number(point, field, view.big_endian).unwrap_or(f64::NAN);
            self.place([0, 1, 2].map(|axis| value(view.fields[axis])));
            let time = time.as_ref().map_or(f64::NAN, |(_, field)| value(*field));
            if time.is_finite() {
                times = [times[0].min(time), times[1].max(time)];
            }
        }
        if let Some((name, _)) = time.filter(|_| times[0] <= times[1]) {
            let sweep = times[1] - times[0];
            let unit_s = None;
            let is_absolute = false;
            let new = || TimeField { name, range: times, sweep, unit_s, is_absolute };
            let known = self.time.get_or_insert_with(new);
            known.range = [known.range[0].min(times[0]), known.range[1].max(times[1])];
            known.sweep = known.sweep.max(sweep);
        }
        Ok(())
    }

    /// Report about the clouds; `None` without a cloud.
    pub(super) fn report(&self) -> Option<CloudReport> {
        let mut time = self.time.clone();
        if let Some(time) = time.as_mut().filter(|time| time.unit_s.is_none()) {
            (time.unit_s, time.is_absolute) = unit(time);
        }
        Some(CloudReport {
            fields: self.fields.clone(),
            other_fields: self.other_fields,
            points: self.points?,
            reach_m: (!self.places.is_empty()).then(|| [0, 1, 2].map(|axis| self.reach(axis))),
            non_finite_share: self.non_finite as f64 / self.looked_points.max(1) as f64,
            time,
        })
    }

    fn reach(&self, axis: usize) -> [f32; 2] {
        let mut values: Vec<f32> = self.places.iter().map(|place| place[axis]).collect();
        values.sort_unstable_by(f32::total_cmp);
        let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
        [at(0.01), at(0.99)]
    }
}

/// The unit of a time \[s\], and whether it counts from the zero of a clock. A sweep takes 5 ms to 0.5 s, and
/// clocks are beyond the year 2001.
fn unit(time: &TimeField) -> (Option<f64>, bool) {
    let fits = |unit: &&f64| (0.005..=0.5).contains(&(time.sweep * **unit));
    let units: Vec<f64> = [1.0, 1e-3, 1e-6, 1e-9].iter().filter(fits).copied().collect();
    match units[..] {
        [unit] => (Some(unit), time.range[0] * unit > 1e9),
        _ => (None, false),
    }
}

fn fields(message: &[u8]) -> Result<Vec<FieldForm>, Rejected> {
    let mut reader = Reader::new(message)?;
    input::header(&mut reader)?;
    reader.skip(4, 8)?;
    let count = reader.u32()? as usize;
    let mut fields = Vec::new();
    for _ in 0..count {
        let name = reader.string_bytes()?;
        let offset = reader.u32()?;
        let code = reader.u8()?;
        let count = reader.u32()?;
        let kind = FieldType::from_code(code);
        if fields.len() < MOST_FIELDS {
            let name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            fields.push(FieldForm { name, datatype: kind.map(word), count, offset, kind });
        }
    }
    Ok(fields)
}

fn word(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Int8 => "int8",
        FieldType::Uint8 => "uint8",
        FieldType::Int16 => "int16",
        FieldType::Uint16 => "uint16",
        FieldType::Int32 => "int32",
        FieldType::Uint32 => "uint32",
        FieldType::Float32 => "float32",
        FieldType::Float64 => "float64",
    }
}

/// The value of a field of a point; `None` if the point does not have it.
fn number(point: &[u8], field: FieldAt, big_endian: bool) -> Option<f64> {
    let bytes = point.get(field.offset..field.offset.checked_add(field.kind.size())?)?;
    macro_rules! of {
        ($type:ty) => {{
            let bytes = bytes.try_into().ok()?;
            let value = if big_endian {
                <$type>::from_be_bytes(bytes)
            } else {
                <$type>::from_le_bytes(bytes)
            };
            f64::from(value)
        }};
    }
    Some(match field.kind {
        FieldType::Int8 => of!(i8),
        FieldType::Uint8 => of!(u8),
        FieldType::Int16 => of!(i16),
        FieldType::Uint16 => of!(u16),
        FieldType::Int32 => of!(i32),
        FieldType::Uint32 => of!(u32),
        FieldType::Float32 => of!(f32),
        FieldType::Float64 => of!(f64),
    })
}
