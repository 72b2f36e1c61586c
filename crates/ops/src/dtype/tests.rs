use super::*;

#[test]
fn bf16_rounding_is_that_of_the_half_crate() {
    let mut bits = 0u32;
    while bits < 0x7F80_0000 {
        for candidate in [bits, bits | 0x8000_0000] {
            let value = f32::from_bits(candidate);
            assert_eq!(bf16_bits(value), bf16::from_f32(value).to_bits(), "{value:e}");
        }
        bits += 0x3FF1; // a stride that meets ties, odd and even neighbours
    }
    for tie in [0x3F80_8000u32, 0x3F81_8000, 0x3F80_8001, 0x7F7F_FFFF] {
        let value = f32::from_bits(tie);
        assert_eq!(bf16_bits(value), bf16::from_f32(value).to_bits());
    }
}

#[test]
fn every_nan_is_the_one_of_a_gpu() {
    for fraction in 1..1u32 << 23 {
        for sign in [0, 1 << 31] {
            let value = f32::from_bits(sign | 0x7F80_0000 | fraction);
            assert_eq!(bf16_bits(value), 0x7FFF, "{:x}", value.to_bits());
        }
    }
    for sign in [0, 0x8000] {
        assert_eq!(bf16_bits(f32::from_bits((sign | 0x7F80) << 16)), (sign | 0x7F80) as u16);
    }
    // A few of them in one block, so that those beside them are seen too.
    let values = [1.0, f32::NAN, f32::from_bits(0xFF80_0001), f32::INFINITY, -0.0];
    for (dtype, expected) in [
        (DType::F16, [0x3C00, 0x7FFF, 0x7FFF, 0x7C00, 0x8000]),
        (DType::Bf16, [0x3F80, 0x7FFF, 0x7FFF, 0x7F80, 0x8000u16]),
    ] {
        let mut bytes = [0; 10];
        dtype.store(&values, &mut bytes);
        assert_eq!(bytes, expected.map(u16::to_le_bytes).as_flattened(), "{dtype:?}");
    }
}

#[test]
fn ranges() {
    assert!(DType::F16.holds(65_504.0) && !DType::F16.holds(65_520.0));
    assert!(DType::Bf16.holds(3.38e38) && !DType::Bf16.holds(f32::MAX));
    assert!(DType::F32.holds(f32::MAX) && !DType::F32.holds(f32::NAN));
    assert!(DType::U8.holds(255.4) && DType::U8.holds(-0.5));
    assert!(!DType::U8.holds(255.5) && !DType::U8.holds(-0.51) && !DType::U8.holds(f32::NAN));
    let least = i32::MIN as f32;
    assert!(DType::I32.holds(least) && !DType::I32.holds(-least));
}

#[test]
fn integers_are_rounded_to_even_and_kept_in_their_range() {
    let mut bytes = [0; 6];
    DType::U8.store(&[0.5, 1.5, 254.5, 300.0, -3.0, 7.4], &mut bytes);
    assert_eq!(bytes, [0, 2, 254, 255, 0, 7]);
    let mut words = [0; 12];
    DType::I32.store(&[-2.5, 3e9, -70_000.0], &mut words);
    let expected = [-2, i32::MAX, -70_000].map(i32::to_le_bytes);
    assert_eq!(words, expected.as_flattened());
}

#[test]
fn types_are_those_of_dlpack() {
    let codes = DType::ALL.map(|dtype| (dtype.name(), dtype.dlpack_code(), dtype.bits()));
    let expected = [("f32", 2, 32), ("f16", 2, 16), ("bf16", 4, 16), ("u8", 1, 8), ("i32", 0, 32)];
    assert_eq!(codes, expected);
}
