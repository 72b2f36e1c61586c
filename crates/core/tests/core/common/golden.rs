//! Functions that the golden tests of images share.

/// The bytes of `noise` in `tests/golden/make_image_golden.py` and in `make_filter_golden.py`.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| {
            let x = i.wrapping_mul(2_654_435_761);
            ((x ^ (x >> 15)).wrapping_mul(2_246_822_519) >> 24) as u8
        })
        .collect()
}

/// CRC-32 of IEEE 802.3, as `zlib.crc32`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
