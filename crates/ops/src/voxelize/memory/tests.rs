use super::*;
use crate::align::Slot;
use crate::dtype::DType;
use crate::voxelize::cpu::Voxelizer;
use crate::voxelize::{FieldType, Grid, IDENTITY, Reduction, VoxelSpec};

#[test]
fn bins_of_any_grid_hold_all_of_its_voxels() {
    for volume in [1, 31, 512, 513, 65_536, 2_097_153, 1 << 24, 1 << 27, i32::MAX as u32] {
        let counts = [SMALL_SUB_BIN_SHIFT, LARGE_SUB_BIN_SHIFT].map(|most| {
            let bins = bins_of(volume, most);
            let voxels = u64::from(bins.bin_count) << bins.bin_shift;
            assert!(voxels >= u64::from(volume) && bins.bin_count <= 2048, "{bins:?}");
            assert_eq!(voxels, (u64::from(bins.voxel_block_mask) + 1) * 32);
            assert!((9..=most).contains(&bins.sub_bin_shift), "{bins:?}");
            bins.bin_count
        });
        assert!(counts[0] >= counts[1], "{volume}: `most` counts on it");
    }
}

#[test]
fn sorted_points_are_whole_tiles_of_both_sizes() {
    for points in [1, 2048, 2049, 1 << 20] {
        let whole = sorted_points(points);
        assert!(whole >= points && whole.is_multiple_of((THREADS * MANY) as usize));
    }
    let bytes = SortedBytes::most(1 << 20, 5, 64 * 64 * 32);
    assert_eq!((bytes.voxels, bytes.values), (4 << 20, 32 << 20));
    assert_eq!((bytes.crowds, bytes.crowd_values), (15 << 13, (5 * 15) << 13));
    let crowds = bytes.crowds + bytes.crowd_values;
    assert_eq!(bytes.total(), bytes.voxels + bytes.values + bytes.segments + crowds);
}

/// The memory that a GPU reserves for buckets is within what is counted for them, and a cloud has room in it.
#[test]
fn buckets_of_any_gpu_are_within_what_is_counted() {
    for multiprocessors in [1, 8, 132, 192] {
        let least = (LEAST_BUCKET_POINTS * multiprocessors) as usize;
        for points in [least, least + 1, 500_000.max(least), 1 << 22] {
            let tiles = bucket_tiles(points, multiprocessors);
            assert!(tiles * BUCKET_TILE_POINTS as usize >= points);
            let reserved = bucket_bytes(tiles.min(MOST_BUCKET_TILES as usize));
            assert!(reserved <= most_bucket_bytes(points), "{points}, {multiprocessors}");
        }
    }
    assert_eq!(most_bucket_bytes(LEAST_BUCKET_POINTS as usize - 1), 0);
}

#[test]
fn tiles_of_a_list_hold_all_voxel_blocks_of_a_grid() {
    for volume in [1, 31, 512, 513, 65_536, 2_097_153, 1 << 27, i32::MAX as usize] {
        for most in [SMALL_SUB_BIN_SHIFT, LARGE_SUB_BIN_SHIFT] {
            let voxel_blocks = bins_of(volume as u32, most).voxel_block_mask as usize + 1;
            let bytes = ListBytes::new(100_000, voxel_blocks, volume, 6);
            assert!(bytes.tiles << bytes.tile_shift >= voxel_blocks, "{bytes:?}");
            assert!((1..=2048).contains(&bytes.tiles) && bytes.tile_shift >= 5, "{bytes:?}");
            assert_eq!(bytes.masks, 4 * (bytes.tiles << bytes.tile_shift));
            assert_eq!(bytes.features, 6 * volume.min(sorted_points(100_000)));
        }
    }
    assert_eq!(last_bytes(2049, 3), 3 * 4 * 4096);
}

/// A packed cloud becomes the same row as the message, with less than half of its bytes.
#[test]
fn packed_points_have_the_values_of_the_message() {
    use FieldType::{Float32, Float64, Int16, Uint8};
    let fields = [(17, Float32), (4, Float64), (40, Float32), (3, Uint8), (29, Int16)];
    let fields = fields.map(|(offset, kind)| FieldAt { offset, kind });
    let width = 700;
    let height = 3;
    let point_step = 61;
    let row_step = width * point_step + 100;
    let mut data = vec![0xEE; height * row_step];
    for at in 0..width * height {
        let point = &mut data[at / width * row_step + at % width * point_step..][..point_step];
        let x = (at % 50) as f32 * 0.1;
        point[17..21].copy_from_slice(&x.to_le_bytes());
        point[4..12].copy_from_slice(&((at % 31) as f64 * 0.1).to_le_bytes());
        point[40..44].copy_from_slice(&1.5f32.to_le_bytes());
        point[3] = at as u8;
        point[29..31].copy_from_slice(&(at as i16 - 900).to_le_bytes());
    }
    let big_endian = false;
    let view = PointsView {
        width,
        height,
        point_step,
        row_step,
        big_endian,
        fields: &fields,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: None,
        data: &data,
    };
    let mut packed = Vec::new();
    let step = packed_fields(&fields, &mut packed);
    assert_eq!(step, 4 + 8 + 4 + 1 + 2);
    let mut bytes = vec![0; width * height * step];
    pack(&view, &packed, step, &mut bytes);
    assert!(bytes.len() <= upload_bytes(fields.len(), width * height));
    let other = PointsView {
        point_step: step,
        row_step: width * step,
        fields: &packed,
        data: &bytes,
        ..view
    };
    let of = |name: &str| Reduction::Mean(name.into());
    let spec = VoxelSpec::new(
        Grid { origin_m: [0.0; 3], size_m: 0.5, shape: [8, 8, 8] },
        vec![Reduction::Count, of("a"), Reduction::Max("b".into())],
    );
    let [whole, fields_alone] = [view, other].map(|view| {
        let mut voxelizer = Voxelizer::new(&spec, DType::F32, 1);
        let slot = Slot::new(0);
        let mut row = vec![0; voxelizer.row_bytes()];
        (voxelizer.encode(&view, slot, &mut row).unwrap(), voxelizer.occupied(slot), row)
    });
    assert!(whole.1 > 30, "{} voxels", whole.1);
    assert!(whole == fields_alone);
}
