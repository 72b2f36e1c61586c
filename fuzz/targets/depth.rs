//! Compressed depth. The first byte chooses the format; the rest is the data.

use robocache_core::codec;

const LARGEST: [usize; 2] = [64, 64];
const FORMATS: [&str; 6] = [
    "16UC1; compressedDepth png",
    "16UC1; compressedDepth rvl",
    "32FC1; compressedDepth png",
    "32FC1; compressedDepth rvl",
    "mono16; compressedDepth",
    "png",
];

pub(crate) fn run(input: &[u8]) {
    let Some((choice, data)) = input.split_first() else { return };
    let format = FORMATS[usize::from(*choice) % FORMATS.len()];
    let mut pixels = Vec::new();
    if let Ok(view) = codec::depth::decode(format.as_bytes(), data, LARGEST, &mut pixels) {
        assert!(view.width <= LARGEST[0] && view.height <= LARGEST[1]);
        assert_eq!(view.data.len(), view.height * view.width * view.element.size());
    }
    assert!(pixels.capacity() <= 4 * LARGEST[0] * LARGEST[1]);
    // The text of a format is as hostile as the data.
    let _ = codec::depth::decode(input, data, LARGEST, &mut pixels);
}
