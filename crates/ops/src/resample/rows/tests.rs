use super::*;

#[test]
fn a_nan_stays_one() {
    let nan = f32::from_bits(0xFFFF_FFFF).to_le_bytes();
    for to in [DType::F32, DType::F16, DType::Bf16] {
        let mut writer = RowWriter::new(DType::F32, to, &[Lane::Linear], true);
        let mut out = vec![0; to.size()];
        let mut value = [0.0];
        writer.copy(&nan, &mut out);
        load(to, &out, &mut value);
        assert!(value[0].is_nan(), "{to:?}");
        writer.between(&nan, &1f32.to_le_bytes(), 0.5, &mut out);
        load(to, &out, &mut value);
        assert!(value[0].is_nan(), "{to:?}");
    }
}
