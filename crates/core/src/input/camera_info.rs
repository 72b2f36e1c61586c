//! `sensor_msgs/msg/CameraInfo`: what undistorts the images of a camera.
//!
//! The meaning of binning, of the region of interest and of empty fields is that of ROS' image_geometry and
//! image_proc:
//!
//! - Images are those of the region of interest, binned. A binning of 0 is 1, and a region of zeros is all.
//! - Coefficients that are all 0, or none, mean that the image stays as it is, whatever model and R and P
//!   say. An `equidistant` lens bends even then, so its images are undistorted if there are coefficients.
//! - An R of zeros is the identity, and a P of zeros is K.
//!
//! Zeros behind the coefficients of a model are no coefficients: some drivers send a vector of one length for all
//! models.

use super::{Input, Sink, header};
use crate::cdr::{F64Sequence, Reader};
use crate::rejected::{DropReason, Rejected};
use robocache_ops::image::MAX_SENSOR;
use robocache_ops::image::camera::{Camera, EQUIDISTANT, Lens, POLYNOMIAL, inverse, product};

/// The type of the messages.
pub const CAMERA_INFO: &str = "sensor_msgs/msg/CameraInfo";

const IDENTITY: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// Makes an input for messages of this type; `None` if it is another type.
pub(super) fn open(ros_type: &str) -> Option<Box<dyn Input>> {
    (ros_type == CAMERA_INFO).then(|| Box::new(CameraInfoInput) as Box<dyn Input>)
}

struct CameraInfoInput;

impl Input for CameraInfoInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let camera = decode(message)?;
        sink.camera(&header(&mut Reader::new(message)?)?, camera);
        Ok(())
    }
}

/// The fields of a message.
struct Fields<'a> {
    /// Width and height of the sensor \[px\].
    size: [u32; 2],
    model: &'a [u8],
    d: F64Sequence<'a>,
    k: [f64; 9],
    r: [f64; 9],
    p: [f64; 12],
    binning: [u32; 2],
    roi: Roi,
}

/// A region of interest \[px of the sensor\].
#[derive(Clone, Copy)]
struct Roi {
    first: [u32; 2],
    size: [u32; 2],
}

/// Reads a `sensor_msgs/msg/CameraInfo`.
///
/// # Errors
/// - `Malformed`: the message ends early, `d` has fewer coefficients than its model or others than 0 behind
///   them, or the region of interest is not on the sensor.
/// - `NonFinite`: NaN or infinity.
/// - `Unsupported`: coefficients of an unknown model.
/// - `OutOfRange`: no calibration (a width, height or focal length of 0), a sensor of more than
///   [`MAX_SENSOR`] pixels, or `p` and `r` without an inverse.
pub fn decode(message: &[u8]) -> Result<Camera, Rejected> {
    let fields = fields(message)?;
    check_finite(&fields)?;
    let Sensor { size, first, binning } = sensor(&fields)?;
    let k = square(fields.k);
    for (name, focal) in [("k[0]", k[0][0]), ("k[4]", k[1][1])] {
        if focal <= 0.0 {
            let detail = format!(
                "{name}: expected a focal length greater than 0, found {focal}; is the camera \
                 calibrated?"
            );
            return Err(Rejected::new(DropReason::OutOfRange, detail));
        }
    }
    let lens = lens(&fields)?;
    let k = binned(k, binning);
    let ray = match lens {
        Lens::Straight => IDENTITY,
        Lens::Polynomial(_) | Lens::Equidistant(_) => ray(&fields, k, binning)?,
    };
    let focal = [k[0][0], k[1][1]];
    let centre = [k[0][2], k[1][2]];
    Ok(Camera { size, first, lens, focal, centre, ray })
}

fn fields(message: &[u8]) -> Result<Fields<'_>, Rejected> {
    let mut reader = Reader::new(message)?;
    header(&mut reader)?;
    let height = reader.u32()?;
    let width = reader.u32()?;
    let model = reader.string_bytes()?;
    let d = reader.f64_sequence()?;
    let k = numbers(&mut reader)?;
    let r = numbers(&mut reader)?;
    let p = numbers(&mut reader)?;
    let binning = [reader.u32()?, reader.u32()?];
    let first = [reader.u32()?, reader.u32()?];
    let roi_height = reader.u32()?;
    let roi_width = reader.u32()?;
    // `do_rectify` is for those who ask a driver for a region.
    reader.u8()?;
    let roi = Roi { first, size: [roi_width, roi_height] };
    Ok(Fields { size: [width, height], model, d, k, r, p, binning, roi })
}

fn numbers<const N: usize>(reader: &mut Reader<'_>) -> Result<[f64; N], Rejected> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = reader.f64()?;
    }
    Ok(numbers)
}

fn check_finite(fields: &Fields<'_>) -> Result<(), Rejected> {
    let d = (0..fields.d.len()).filter_map(|at| fields.d.get(at));
    let d = d.enumerate().map(|(at, number)| ("d", at, number));
    let arrays = [("k", &fields.k[..]), ("r", &fields.r), ("p", &fields.p)];
    let arrays = arrays.into_iter().flat_map(|(name, numbers)| {
        numbers.iter().enumerate().map(move |(at, number)| (name, at, *number))
    });
    match d.chain(arrays).find(|(_, _, number)| !number.is_finite()) {
        None => Ok(()),
        Some((name, at, found)) => {
            let detail = format!("{name}[{at}]: expected a number, found {found}");
            Err(Rejected::new(DropReason::NonFinite, detail))
        }
    }
}

/// Part of the sensor that images show.
struct Sensor {
    size: [usize; 2],
    first: [usize; 2],
    binning: [u32; 2],
}

fn sensor(fields: &Fields<'_>) -> Result<Sensor, Rejected> {
    let Fields { size: [width, height], roi, .. } = *fields;
    let out_of_range = |detail| Err(Rejected::new(DropReason::OutOfRange, detail));
    if width == 0 || height == 0 {
        return out_of_range(format!(
            "expected the size of the camera's images, found {width}x{height} px; is the camera \
             calibrated?"
        ));
    }
    if width.max(height) as usize >= MAX_SENSOR {
        return out_of_range(format!(
            "expected a sensor of less than {MAX_SENSOR} px a side, found {width}x{height} px"
        ));
    }
    let all = Roi { first: [0; 2], size: fields.size };
    let roi = if roi.first == [0; 2] && roi.size == [0; 2] { all } else { roi };
    let binning = fields.binning.map(|binning| binning.max(1));
    let mut sensor = Sensor { size: [0; 2], first: [0; 2], binning };
    for (axis, by) in binning.into_iter().enumerate() {
        let first = roi.first[axis];
        let size = roi.size[axis];
        let end = u64::from(first) + u64::from(size);
        if end > u64::from(fields.size[axis]) || size / by == 0 {
            let [x, y] = roi.first;
            let [w, h] = roi.size;
            let detail = format!(
                "roi: expected a region of the {width}x{height} px of the sensor with at least one pixel \
                 of {}x{}, found {w}x{h} px at {x}, {y}",
                binning[0], binning[1]
            );
            return Err(Rejected::new(DropReason::Malformed, detail));
        }
        sensor.first[axis] = (first / by) as usize;
        sensor.size[axis] = (size / by) as usize;
    }
    Ok(sensor)
}

fn lens(fields: &Fields<'_>) -> Result<Lens, Rejected> {
    let d = &fields.d;
    let model = fields.model;
    let zero = (0..d.len()).all(|at| d.get(at) == Some(0.0));
    if d.is_empty() || (zero && model != b"equidistant") {
        return Ok(Lens::Straight);
    }
    let lengths: &[usize] = match model {
        b"plumb_bob" => &[4, 5],
        b"rational_polynomial" => &[8, 12, POLYNOMIAL],
        b"equidistant" => &[EQUIDISTANT],
        _ => {
            // A string of a message may hold any text.
            let found = String::from_utf8_lossy(&model[..model.len().min(32)]);
            let detail = format!(
                "distortion_model: expected plumb_bob, rational_polynomial or equidistant, found \
                 {found:?} with {} coefficients",
                d.len()
            );
            return Err(Rejected::new(DropReason::Unsupported, detail));
        }
    };
    check_length(d, model, lengths)?;
    let at = |at: usize| d.get(at).unwrap_or(0.0);
    Ok(match model {
        b"equidistant" => Lens::Equidistant(std::array::from_fn(at)),
        _ => Lens::Polynomial(std::array::from_fn(at)),
    })
}

/// Checks that `d` has one of these lengths, or only zeros behind the longest that it can have.
fn check_length(d: &F64Sequence<'_>, model: &[u8], lengths: &[usize]) -> Result<(), Rejected> {
    let used = lengths.iter().copied().filter(|length| *length <= d.len()).max();
    let behind =
        |used| (used..d.len()).find_map(|at| d.get(at).filter(|c| *c != 0.0).map(|c| (at, c)));
    let found = match used.map(behind) {
        Some(None) => return Ok(()),
        Some(Some((at, other))) => format!("{} with {other} at d[{at}]", d.len()),
        None => d.len().to_string(),
    };
    let lengths: Vec<_> = lengths.iter().map(usize::to_string).collect();
    let detail = format!(
        "d: expected {} coefficients of {}, and zeros behind them, found {found}",
        lengths.join(" or "),
        String::from_utf8_lossy(model)
    );
    Err(Rejected::new(DropReason::Malformed, detail))
}

/// Matrix that takes a pixel of the undistorted image to its ray.
fn ray(
    fields: &Fields<'_>,
    k: [[f64; 3]; 3],
    binning: [u32; 2],
) -> Result<[[f64; 3]; 3], Rejected> {
    let p: [[f64; 3]; 3] =
        std::array::from_fn(|row| std::array::from_fn(|column| fields.p[4 * row + column]));
    let is_zero = |m: &[[f64; 3]; 3]| m.iter().flatten().all(|entry| *entry == 0.0);
    let camera = if is_zero(&p) { k } else { binned(p, binning) };
    let r = square(fields.r);
    let r = if is_zero(&r) { IDENTITY } else { r };
    inverse(&product(&camera, &r)).ok_or_else(|| {
        let detail =
            "p and r: expected a camera matrix and a rotation, found a product without an inverse";
        Rejected::new(DropReason::OutOfRange, detail)
    })
}

fn square(numbers: [f64; 9]) -> [[f64; 3]; 3] {
    std::array::from_fn(|row| std::array::from_fn(|column| numbers[3 * row + column]))
}

/// A camera matrix in binned pixels.
fn binned(mut matrix: [[f64; 3]; 3], binning: [u32; 2]) -> [[f64; 3]; 3] {
    for (axis, by) in binning.into_iter().enumerate().filter(|(_, by)| *by > 1) {
        let scale = 1.0 / f64::from(by);
        matrix[axis][axis] *= scale;
        matrix[axis][2] *= scale;
    }
    matrix
}

#[cfg(test)]
mod tests;
