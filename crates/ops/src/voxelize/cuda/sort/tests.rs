use super::*;

#[test]
fn a_usual_grid_has_a_bin_for_every_multiprocessor() {
    let bins = bins_of(128 * 128 * 128, 13);
    assert_eq!((bins.bin_shift, bins.sub_bin_shift, bins.bin_count), (13, 13, 256));
    assert_eq!((bins.voxel_block_mask, sub_bins(&bins), occupancy_words(&bins)), (65_535, 256, 8));
    let small = bins_of(128 * 128 * 128, 11);
    assert_eq!((small.sub_bin_shift, small.bin_count), (11, 1024));
}

#[test]
fn sub_bins_of_any_grid_hold_all_of_its_voxels() {
    for volume in [1, 31, 512, 513, 65_536, 2_097_153, 1 << 24, 1 << 27, i32::MAX as u32] {
        for most in [SMALL_SUB_BIN_SHIFT, LARGE_SUB_BIN_SHIFT] {
            let bins = bins_of(volume, most);
            let voxels = u64::from(bins.bin_count) << bins.bin_shift;
            assert_eq!(voxels, u64::from(sub_bins(&bins)) << bins.sub_bin_shift);
        }
    }
}
