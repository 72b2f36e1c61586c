use super::*;

#[test]
fn the_first_number_that_is_not_finite_is_found() {
    // More than one piece, and not whole blocks.
    let count = (PIECE + 3 * BLOCK) / 4 + 5;
    for (dtype, least, greatest, others) in [
        (DType::F32, 1, 0x7F7F_FFFF, [0x7F80_0000u32, 0xFF80_0000, 0x7F80_0001, 0xFFFF_FFFF]),
        (DType::F16, 1, 0xFBFF, [0x7C00, 0xFC00, 0x7C01, 0xFFFF]),
        (DType::Bf16, 1, 0xFF7F, [0x7F80, 0xFF80, 0x7F81, 0xFFFF]),
    ] {
        let size = dtype.size();
        let put = |bytes: &mut [u8], at: usize, bits: u32| {
            bytes[at * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
        };
        let mut bytes = vec![0; count * size];
        (0..count).for_each(|at| put(&mut bytes, at, [least, greatest][at % 2]));
        assert_eq!(first_beyond(dtype, &bytes, BEYOND_F32), None, "{dtype:?}");
        for (at, bits) in [count - 1, count / 2, 1, 0].into_iter().zip(others) {
            put(&mut bytes, at, bits);
            assert_eq!(first_beyond(dtype, &bytes, BEYOND_F32), Some(at), "{dtype:?}");
        }
    }
    assert_eq!(first_beyond(DType::U8, &[255; 8], BEYOND_F32), None);
    assert_eq!(first_beyond(DType::I32, &[255; 8], BEYOND_F32), None);
}

#[test]
fn the_limits_are_those_of_the_types() {
    for (dtype, beyond) in
        [(DType::F32, BEYOND_F32), (DType::F16, BEYOND_F16), (DType::Bf16, BEYOND_BF16)]
    {
        let [least, before] = [beyond, beyond - 1].map(f32::from_bits);
        assert!(dtype.holds(before) && !dtype.holds(least), "{dtype:?}");
        for value in [least, -least] {
            assert_eq!(first_beyond(DType::F32, &value.to_le_bytes(), beyond), Some(0));
            assert_eq!(first_beyond(DType::F32, &before.to_le_bytes(), beyond), None);
        }
    }
    for (value, found) in [(65_280.0f32, None), (65_536.0, Some(0))] {
        let bytes = bf16::from_f32(value).to_le_bytes();
        assert_eq!(first_beyond(DType::Bf16, &bytes, BEYOND_F16), found);
    }
}

#[test]
#[ignore = "a measurement: cargo test --release finite -- --ignored --nocapture"]
fn speed() {
    let bytes = vec![1; 1 << 30];
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let start = std::time::Instant::now();
        assert_eq!(first_beyond(dtype, &bytes, BEYOND_F32), None);
        println!("{dtype:?}: {:.1} GiB/s", 1.0 / start.elapsed().as_secs_f64());
    }
}
