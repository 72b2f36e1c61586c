//! Resizes one image with one filter: for `make golden-live`, which compares with other libraries.
//!
//! Arguments: the filter, width and height of the image, width and height of the result. It reads the
//! RGB bytes of the image and writes those of the result.

use std::io::{Error, Read, Write};

use robocache_ops::dtype::DType;
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{Encoding, Filter, Fit, ImageLayout, ImageSpec, ImageView, Resize};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || Error::other("expected FILTER WIDTH HEIGHT ROW_WIDTH ROW_HEIGHT");
    let [name, sides @ ..] = arguments.as_slice() else { return Err(usage()) };
    let sides: Vec<usize> =
        sides.iter().map(|side| side.parse().map_err(|_| usage())).collect::<Result<_, _>>()?;
    let &[width, height, row_width, row_height] = sides.as_slice() else { return Err(usage()) };
    let filter = Filter::ALL.into_iter().find(|filter| filter.name() == name).ok_or_else(usage)?;
    let mut data = Vec::new();
    std::io::stdin().read_to_end(&mut data)?;
    if sides.contains(&0) || data.len() != 3 * width * height {
        return Err(usage());
    }
    let resize = Resize { filter, fit: Fit::Stretch, ..Resize::to(row_width, row_height) };
    let spec = ImageSpec { layout: ImageLayout::Hwc, ..ImageSpec::new(vec![resize]) };
    let view = ImageView {
        encoding: Encoding::Rgb8,
        width,
        height,
        step: 3 * width,
        data: &data,
        remap: None,
    };
    let mut row = vec![0; spec.row_len()];
    ImageEncoder::new(&spec, DType::U8).encode(&view, &mut row);
    std::io::stdout().write_all(&row)
}
