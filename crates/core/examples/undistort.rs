//! Undistorts one image: for `make golden-live`, which compares with OpenCV.
//!
//! Arguments: the distortion model, then numbers: width and height of the sensor, binning (2), region of
//! interest (x, y, width, height), channels of the image (1 or 3), k (9), r (9), p (12), and d. It reads the
//! bytes of the image, and writes the points of the table, its fractions, and the bytes of the result.

use std::io::{Error, Read, Write};

use robocache_core::cdr::messages::CameraInfo;
use robocache_core::input::camera_info::decode;
use robocache_ops::image::{Encoding, ImageView};
use robocache_ops::time::Stamp;

fn main() -> Result<(), Error> {
    let usage = || Error::other("expected MODEL and at least 39 numbers");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, numbers) = arguments.split_first().ok_or_else(usage)?;
    let numbers: Vec<f64> =
        numbers.iter().map(|text| text.parse().map_err(|_| usage())).collect::<Result<_, _>>()?;
    let (head, rest) = numbers.split_first_chunk::<9>().ok_or_else(usage)?;
    let [width, height, binning_x, binning_y, roi @ .., channels] =
        head.map(|number| number as u32);
    let (k, rest) = rest.split_first_chunk().ok_or_else(usage)?;
    let (r, rest) = rest.split_first_chunk().ok_or_else(usage)?;
    let (p, d) = rest.split_first_chunk().ok_or_else(usage)?;
    let message = CameraInfo {
        stamp: Stamp::from_nanos(1),
        frame_id: "camera",
        height,
        width,
        distortion_model: model,
        d,
        k: *k,
        r: *r,
        p: *p,
        binning: [binning_x, binning_y],
        roi,
    };
    let camera = decode(&message.to_cdr(Vec::new())).map_err(Error::other)?;
    let [width, height] = camera.size;
    let table =
        camera.remap(&[0..width, 0..height]).ok_or_else(|| Error::other("no distortion"))?;
    let mut data = Vec::new();
    std::io::stdin().read_to_end(&mut data)?;
    let encoding = if channels == 1 { Encoding::Mono8 } else { Encoding::Rgb8 };
    let step = width * encoding.bytes_per_pixel();
    if data.len() != step * height {
        return Err(usage());
    }
    let view = ImageView { encoding, width, height, step, data: &data, remap: None };
    let mut out = Vec::new();
    let result = table.run(None, &view, &mut out).ok_or_else(usage)?;
    let mut stdout = std::io::stdout().lock();
    table.points().iter().try_for_each(|point| stdout.write_all(&point.to_le_bytes()))?;
    table.fractions().iter().try_for_each(|at| stdout.write_all(&at.to_le_bytes()))?;
    stdout.write_all(result.data)
}
