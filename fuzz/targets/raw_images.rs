//! YUV, Bayer, gray of 16 bits and plain pixels. The first bytes are encoding, byte order, width, height
//! and step; the rest is the data.

use robocache_core::codec::{PixelFormat, RawImage};

const LARGEST: [usize; 2] = [64, 64];

pub(crate) fn run(input: &[u8]) {
    let [choice, order, width, height, step, high, data @ ..] = input else { return };
    let formats: Vec<_> = PixelFormat::all().collect();
    let format = formats[usize::from(*choice) % formats.len()];
    let size = [usize::from(*width), usize::from(*height)];
    // Also steps whose product with a height has more than 64 bits.
    let step =
        if *high == 255 { usize::MAX } else { usize::from(*step) + 256 * usize::from(*high) };
    let image = RawImage { size, big_endian: order % 2 == 1, step, data };
    let mut pixels = Vec::new();
    if let Ok(view) = format.picture(&image, LARGEST, &mut pixels) {
        assert_eq!([view.width, view.height], size);
        let line = view.width * view.encoding.bytes_per_pixel();
        assert!(view.step >= line && view.data.len() >= (view.height - 1) * view.step + line);
    }
    assert!(pixels.capacity() <= 3 * LARGEST[0] * LARGEST[1]);
}
