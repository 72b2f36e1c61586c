//! How the passes of a resize read pixels: the one place that knows the bytes of each encoding on the CPU.

use super::spec::Encoding;

/// Something that is done with pixels of `BPP` bytes, which `convert` takes to `CH` bytes.
pub(super) trait Converted {
    /// Does it.
    fn run<const BPP: usize, const CH: usize>(
        self,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
    ) -> bool;
}

/// Bytes per pixel after the conversion: 1 for `luma` or mono images, otherwise 4.
pub(super) fn channels(encoding: Encoding, luma: bool) -> usize {
    if luma || encoding == Encoding::Mono8 { 1 } else { 4 }
}

/// Runs `passes` with the conversion from `encoding` to 1 or 4 `channels`. Colour becomes luma if
/// there is one. The four are in the order of the encoding; the last has no meaning.
pub(super) fn convert(encoding: Encoding, channels: usize, passes: impl Converted) -> bool {
    match (channels, encoding) {
        (4, Encoding::Rgb8 | Encoding::Bgr8) => passes.run::<3, 4>(|[a, b, c]| [a, b, c, 0]),
        (4, _) => passes.run::<4, 4>(|pixel| pixel),
        (_, Encoding::Mono8) => passes.run::<1, 1>(|pixel| pixel),
        (_, Encoding::Rgb8) => passes.run::<3, 1>(|[r, g, b]| luma(r, g, b)),
        (_, Encoding::Bgr8) => passes.run::<3, 1>(|[b, g, r]| luma(r, g, b)),
        (_, Encoding::Rgba8) => passes.run::<4, 1>(|[r, g, b, _]| luma(r, g, b)),
        (_, Encoding::Bgra8) => passes.run::<4, 1>(|[b, g, r, _]| luma(r, g, b)),
    }
}

/// Luma of ITU-R BT.601 with Pillow's 16 fraction bits (`L24` in `src/libImaging/Convert.c`).
#[inline(always)]
fn luma(r: u8, g: u8, b: u8) -> [u8; 1] {
    let [r, g, b] = [r, g, b].map(u32::from);
    [((r * 19_595 + g * 38_470 + b * 7_471 + 0x8000) >> 16) as u8]
}
