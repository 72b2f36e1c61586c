use pulp::{Arch, Simd, WithSimd};

use super::{Arithmetic, Bytes, LANES, lanes};

/// The first pass in code for this processor.
struct FirstPass<'a>(&'a [([[u8; LANES]; 2], [i32; 2])]);

impl WithSimd for FirstPass<'_> {
    type Output = [u8; LANES];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [u8; LANES] {
        let inputs =
            self.0.iter().map(|(bytes, weights)| (bytes.each_ref(), Bytes::pair(*weights)));
        Bytes::first_pass(simd, inputs)
    }
}

/// Compares the code for this processor with plain sums; without AVX2 both are the same code.
#[track_caller]
fn compare(inputs: &[([[u8; LANES]; 2], [i32; 2])]) {
    let plain = inputs.iter().map(|(bytes, weights)| (bytes.each_ref(), Bytes::pair(*weights)));
    let expected = lanes(plain, Bytes::START, Bytes::add_byte, Bytes::between);
    assert_eq!(Arch::new().dispatch(FirstPass(inputs)), expected, "{inputs:?}");
}

/// Weights at the edges of both parts: a tap alone has 2^22, and a part of 0x8000 is negative.
#[test]
fn processors_sum_the_same_bytes() {
    let ramp: [u8; LANES] = std::array::from_fn(|lane| (lane * 37 + 11) as u8);
    let other: [u8; LANES] = std::array::from_fn(|lane| 255 - (lane * 29) as u8);
    for bytes in [[[255; LANES]; 2], [[0; LANES], [255; LANES]], [ramp, other]] {
        for first in
            [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1_8000, 1 << 21, (1 << 22) - 1, 1 << 22]
        {
            compare(&[(bytes, [first, 0])]);
            compare(&[(bytes, [first, (1 << 22) - first])]);
            compare(&[(bytes, [(1 << 22) - first, first + 3])]);
        }
    }
    // 4,000 taps: the sums of the higher parts alone would exceed 16 bits.
    let weight = (1 << 22) / 4000;
    compare(&vec![([[255; LANES], ramp], [weight + 1, weight]); 2000]);
    compare(&vec![([ramp, other], [0x8000 >> 5, 0x7fff >> 5]); 2000]);
}
