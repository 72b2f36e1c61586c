//! Clouds from serialized bytes to rows, compared with a plain reference in 128-bit integers.

mod support;

use proptest::prelude::*;
use robocache_core::input::point_cloud2;
use robocache_core::rejected::{DropReason, Rejected};
use robocache_ops::align::Slot;
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::PointDrops;
use robocache_ops::voxelize::cpu::Voxelizer;
use robocache_ops::voxelize::{
    Action, Feature, Filter, Form, Grid, IDENTITY, Reduction, Shape, ShapeFrame, VoxelSpec,
};
use robocache_ops::voxelize::{FieldAt, FieldType, MAX_POINTS, PointsView, extra_fields};
use support::{Cloud, Layout, Placed, encode, extra, fresh, message, reference, spec};

#[test]
fn a_cloud_by_hand() {
    let mut spec = spec(["count", "mean:i", "max:i", "occupancy", "mean:z"]);
    spec.grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape: [3, 2, 2] };
    spec.t_base_sensor = [[1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    let points = [[0.0, 0.0, 0.25, 1.0], [0.4, 0.9, 0.75, 2.0], [2.0, 1.5, 1.5, -7.0]];
    let cloud = Cloud::of(&points);
    let (row, report) = fresh(&message(&cloud, &Layout::plain()), &spec, DType::F32).unwrap();
    assert_eq!(report, PointDrops::default());
    let mut expected = vec![0f32; 5 * 12];
    let last = 11; // z 1, y 1, x 2
    for (channel, (first_value, last_value)) in
        [(2.0, 1.0), (1.5, -7.0), (2.0, -7.0), (1.0, 1.0), (0.5, 1.5)].into_iter().enumerate()
    {
        expected[channel * 12] = first_value;
        expected[channel * 12 + last] = last_value;
    }
    let found: Vec<f32> =
        row.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(found, expected);
}

#[test]
fn points_on_a_face_belong_to_the_upper_voxel() {
    let mut spec = spec(["count"]);
    spec.grid = Grid { origin_m: [-1.0, -1.0, -1.0], size_m: 0.5, shape: [4, 4, 4] };
    let below_one = 1.0 - 2f32.powi(-22); // its distance to the origin is exact
    let below_origin = f32::from_bits((-1.0f32).to_bits() + 1);
    for (x, expected) in [
        (-1.0, Some(0)),
        (below_origin, None),
        (-0.5, Some(1)),
        (0.0, Some(2)),
        (-0.0, Some(2)),
        (0.5, Some(3)),
        (below_one, Some(3)),
        (1.0, None),
    ] {
        let cloud = Cloud::of(&[[x, -1.0, -1.0, 0.0]]);
        let (row, report) = fresh(&message(&cloud, &Layout::plain()), &spec, DType::F32).unwrap();
        let found = row.chunks_exact(4).position(|bytes| bytes != [0; 4]);
        assert_eq!(found, expected, "x = {x}");
        assert_eq!(report.outside, u64::from(expected.is_none()), "x = {x}");
    }
}

#[test]
fn an_empty_cloud_is_an_empty_grid_whatever_height_it_declares() {
    let spec = spec(["count", "mean:i"]);
    for (width, height) in [(0, 0), (0, 1), (0, u32::MAX), (7, 0)] {
        let mut layout = Layout::plain();
        (layout.width, layout.height) = (Some(width), Some(height));
        let bytes = message(&Cloud::of(&[]), &layout);
        let (row, report) = fresh(&bytes, &spec, DType::F32).unwrap();
        assert!(row.iter().all(|byte| *byte == 0));
        assert_eq!(report, PointDrops::default());
    }
}

#[test]
fn each_dropped_point_is_counted_once_under_the_first_rule_that_drops_it() {
    let spec = spec(["count", "mean:i", "max:i"]);
    let nan = f64::NAN;
    let inf = f64::INFINITY;
    let cloud = Cloud::of_f64(&[
        [0.1, 0.1, 0.1, 1.0],
        [nan, 0.1, 0.1, 1.0],
        [0.1, -inf, 0.1, nan],
        [0.1, 0.1, 0.1, nan],
        [99.0, 0.1, 0.1, inf],
        [1e39, 0.1, 0.1, 1.0], // finite as the float64 that it is
        [99.0, 0.1, 0.1, 2e6],
        [0.1, 3e38, 3e38, 1.0], // overflows in the transform
        [0.1, 0.1, 0.1, 1_048_576.0],
        [0.1, 0.1, 0.1, -1_048_576.1],
        [0.1, 0.1, 0.1, 3e38],
    ]);
    let mut layout = Layout::plain();
    layout.kinds = [FieldType::Float64; 4];
    layout.point_step = 40;
    layout.offsets = [0, 8, 16, 24];
    let mut rotated = spec;
    rotated.t_base_sensor[1] = [0.0, 1.0, 1.0, 0.0];
    let (row, report) = fresh(&message(&cloud, &layout), &rotated, DType::F32).unwrap();
    let expected =
        PointDrops { non_finite: 4, out_of_range: 2, outside: 3, ..PointDrops::default() };
    assert_eq!(report, expected);
    assert_eq!(Some((row, report)), reference(&cloud, &layout, &rotated, DType::F32));
}

/// The greatest numbers that points can have, in the smallest and the largest grid of a configuration.
#[test]
fn every_value_of_a_row_of_f32_is_finite() {
    let features = [Feature::from("i"), Feature::from("x"), Feature::Range, Feature::Offset(1)];
    let of = |reductions: &[fn(Feature) -> Reduction]| -> Vec<Reduction> {
        let each = |reduction: &fn(Feature) -> Reduction| features.clone().map(reduction);
        reductions.iter().flat_map(each).collect()
    };
    let summed = of(&[Reduction::Mean, Reduction::Sum]);
    let chosen = of(&[Reduction::Max, Reduction::Min, Reduction::Last]);
    let greatest = f64::from(f32::MAX);
    let extremes = [0.1, -0.3, 1e6, -1e6, 3e9, 1e19, -2e19, greatest, -greatest, 1e300, f64::NAN];
    let mut points = vec![[0.1, 0.1, 0.1, 1_048_576.0]; 5000];
    for x in extremes {
        for y in extremes {
            points.extend(extremes.map(|i| [x, y, 0.1, i]));
        }
    }
    let cloud = Cloud::of_f64(&points);
    let mut wide = Layout::plain();
    (wide.kinds, wide.point_step, wide.offsets) = ([FieldType::Float64; 4], 40, [0, 8, 16, 24]);
    let small = Grid { origin_m: [-1.0; 3], size_m: 0.5, shape: [4, 4, 4] };
    let large = Grid { origin_m: [-1e6; 3], size_m: 1e6, shape: [4096, 2, 2] };
    let grids = [(small, Layout::plain()), (small, wide.clone()), (large, wide)];
    for ((grid, layout), max_voxels) in
        grids.iter().flat_map(|grid| [None, Some(64)].map(|v| (grid, v)))
    {
        for (channels, sums) in [(&summed, true), (&chosen, false)] {
            let spec = VoxelSpec { max_voxels, ..VoxelSpec::new(*grid, channels.clone()) };
            let elements = channels.len() * max_voxels.unwrap_or(grid.volume());
            let spec = Placed { spec, t_base_sensor: IDENTITY };
            let (row, drops) = fresh(&message(&cloud, layout), &spec, DType::F32).unwrap();
            let values = row.as_chunks::<4>().0[..elements].iter();
            let values: Vec<_> = values.map(|bytes| f32::from_le_bytes(*bytes)).collect();
            assert!(values.iter().all(|value| value.is_finite()), "{spec:?}");
            assert!(drops.outside > 0 && drops.non_finite > 0, "{drops:?}");
            assert_eq!((values.contains(&f32::MAX), drops.out_of_range > 0), (!sums, sums));
        }
    }
}

/// A dense row, whose last channel is the occupancy, as a sparse one; and the number of occupied voxels.
fn listed(dense: &[u8], spec: &VoxelSpec, dtype: DType, most: usize) -> (Vec<u8>, usize) {
    let size = dtype.size();
    let channels = spec.channels.len();
    let volume = dense.len() / size / channels;
    let element =
        |channel: usize, voxel: usize| &dense[(channel * volume + voxel) * size..][..size];
    let is_occupied = |voxel: &usize| element(channels - 1, *voxel).iter().any(|byte| *byte != 0);
    let occupied: Vec<_> = (0..volume).filter(is_occupied).collect();
    let features = most * channels * size;
    let start = features.div_ceil(64) * 64;
    let mut row = vec![0; start + 12 * most];
    for (at, voxel) in occupied.iter().take(most).enumerate() {
        for channel in 0..channels {
            row[(at * channels + channel) * size..][..size]
                .copy_from_slice(element(channel, *voxel));
        }
        let [nx, ny, _] = spec.grid.shape;
        let zyx = [voxel / (nx * ny), voxel / nx % ny, voxel % nx];
        for (axis, coordinate) in zyx.into_iter().enumerate() {
            let bytes = (coordinate as i32).to_le_bytes();
            row[start + 12 * at + 4 * axis..][..4].copy_from_slice(&bytes);
        }
    }
    (row, occupied.len())
}

/// A cloud as a driver sends it, x first.
fn plain(points: &[[f32; 4]]) -> Vec<u8> {
    message(&Cloud::of(points), &Layout::plain())
}

/// The values of a row of f32, channel by channel, in the only voxel that is not empty.
fn only_voxel(row: &[u8], channels: usize) -> Vec<f32> {
    let values: Vec<_> = row.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let planes: Vec<_> = values.chunks_exact(values.len() / channels).collect();
    let at = (0..planes[0].len()).filter(|at| planes.iter().any(|plane| plane[*at] != 0.0));
    let at: Vec<_> = at.collect();
    assert_eq!(at.len(), 1);
    planes.iter().map(|plane| plane[at[0]]).collect()
}

#[test]
fn every_reduction_by_hand() {
    let spec =
        spec(["min:i", "max:i", "sum:i", "mean:i", "last:i", "last:ox", "sum:oz", "max:range"]);
    // The voxel from 0.5 to 1 along x, whose centre is at 0.75.
    let points = [[0.5, 0.25, 0.25, 4.0], [1.0 - 0.0625, 0.25, 0.25, -6.0], [0.75, 0.0, 0.0, 3.5]];
    let (row, report) = fresh(&plain(&points), &spec, DType::F32).unwrap();
    assert_eq!(report, PointDrops::default());
    let range = (0.9375f32 * 0.9375 + 0.0625 + 0.0625).sqrt();
    assert_eq!(only_voxel(&row, 8), [-6.0, 4.0, 1.5, 0.5, 3.5, 0.0, -0.25, range]);
    let reversed = [points[2], points[1], points[0]];
    let (row, _) = fresh(&plain(&reversed), &spec, DType::F32).unwrap();
    assert_eq!(only_voxel(&row, 8)[4..6], [4.0, -0.25]);
}

#[test]
fn each_filtered_point_is_counted_under_its_reason() {
    let mut spec = spec(["count"]);
    spec.t_base_sensor[0][3] = 0.5;
    spec.min_points = 2;
    let sphere = Form::Sphere { radius_m: 0.25 };
    let cube = |half: f32| Form::Box { min_m: [-half; 3], max_m: [half; 3] };
    let shape = |action, frame, form| Shape { action, frame, form, t_shape_frame: IDENTITY };
    spec.filter = Filter {
        min_range_m: Some(0.25),
        max_range_m: Some(1.5),
        shapes: vec![
            shape(Action::Keep, ShapeFrame::Base, cube(1.0)),
            shape(
                Action::Remove,
                ShapeFrame::Sensor,
                Form::Box { min_m: [-1.0, 0.5, -1.0], max_m: [1.0, 1.0, 1.0] },
            ),
            shape(Action::Robot, ShapeFrame::Base, sphere),
        ],
    };
    // Their sensor is at 0.5 along x of the base frame.
    let cloud = Cloud::of(&[
        [0.0, 0.0, 0.125, 0.0],  // too close
        [-1.5, 0.0, 0.25, 0.0],  // too far
        [0.75, 0.0, 0.0, 0.0],   // at 1.25 of the base frame: not kept
        [0.25, 0.75, 0.0, 0.0],  // in the box of the sensor's frame
        [-0.5, 0.0, 0.25, 0.0],  // on the surface of the sphere
        [-0.5, 0.375, 0.0, 0.0], // the only one in its voxel
        [0.25, 0.25, 0.25, 0.0],
        [0.25, 0.375, 0.25, 0.0],
        [f32::NAN, 0.0, 0.0, 0.0],
    ]);
    let (row, report) = fresh(&message(&cloud, &Layout::plain()), &spec, DType::F32).unwrap();
    let expected = PointDrops {
        non_finite: 1,
        out_of_reach: 2,
        cropped: 2,
        on_robot: 1,
        too_few: 1,
        ..PointDrops::default()
    };
    assert_eq!(report, expected);
    assert_eq!(only_voxel(&row, 1), [2.0]);
    // A view without the poses of the shapes cannot become a row.
    let mut scratch = Vec::new();
    let bytes = message(&cloud, &Layout::plain());
    let (_, view) = point_cloud2::decode(&bytes, &extra(&spec), &mut scratch).unwrap();
    let mut voxelizer = Voxelizer::new(&spec, DType::F32, 1);
    let mut row = vec![0; voxelizer.row_bytes()];
    let error = voxelizer.encode(&view, Slot::new(0), &mut row).unwrap_err();
    assert_eq!(error.to_string(), "cloud view: expected the poses of 3 shapes, found 0");
}

/// Compares float64 coordinates of a map with numpy's result in float64, `tests/golden/make_voxel_golden.py`.
#[test]
fn map_coordinates_lose_nothing() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../tests/golden/voxel_map_golden.json"))
            .unwrap();
    let numbers = |key: &str| -> Vec<f64> {
        golden[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let words: Vec<_> = golden["channels"].as_array().unwrap().iter().collect();
    let words: Vec<&str> = words.into_iter().map(|word| word.as_str().unwrap()).collect();
    let mut spec = spec([]);
    spec.channels = words.iter().map(|word| support::spec([*word]).channels.remove(0)).collect();
    let origin_m = numbers("origin").try_into().unwrap();
    let shape = golden["shape"].as_array().unwrap();
    let shape = std::array::from_fn(|axis| shape[axis].as_u64().unwrap() as usize);
    spec.grid = Grid { origin_m, size_m: golden["size"].as_f64().unwrap() as f32, shape };
    let t = numbers("transform");
    spec.t_base_sensor = std::array::from_fn(|r| std::array::from_fn(|c| t[4 * r + c]));
    spec.min_points = golden["min_points"].as_u64().unwrap() as u32;
    spec.filter.max_range_m = Some(golden["max_range"].as_f64().unwrap() as f32);
    let points: Vec<[f64; 4]> =
        numbers("points").chunks_exact(4).map(|p| p.try_into().unwrap()).collect();
    let mut layout = Layout::plain();
    layout.kinds = [FieldType::Float64; 4];
    (layout.offsets, layout.point_step) = ([0, 8, 16, 24], 32);
    let (row, report) =
        fresh(&message(&Cloud::of_f64(&points), &layout), &spec, DType::F32).unwrap();
    let count = |key: &str| golden[key].as_u64().unwrap();
    assert_eq!(report.outside, count("outside"));
    assert_eq!(report.out_of_reach, count("out_of_reach"));
    assert_eq!(report.too_few, count("too_few"));
    let volume: usize = shape.iter().product();
    let mut expected = vec![0u8; row.len()];
    for voxel in golden["voxels"].as_array().unwrap() {
        let at = voxel[0].as_u64().unwrap() as usize;
        for channel in 0..words.len() {
            let bits = voxel[1 + channel].as_u64().unwrap() as u32;
            expected[4 * (channel * volume + at)..][..4].copy_from_slice(&bits.to_le_bytes());
        }
    }
    assert!(count("occupied") > 40 && row == expected);
}

#[test]
fn max_does_not_look_at_the_fixed_point_range_and_has_one_zero() {
    let spec = spec(["max:i"]);
    let one = |value: f32| {
        let cloud = Cloud::of(&[[0.1, 0.1, 0.1, value]]);
        fresh(&message(&cloud, &Layout::plain()), &spec, DType::F32).unwrap()
    };
    assert_eq!(one(-0.0), one(0.0));
    let (row, report) = one(3e38);
    assert_eq!(report, PointDrops::default());
    assert!(row.chunks_exact(4).any(|bytes| bytes == 3e38f32.to_le_bytes()));
}

#[test]
fn sums_do_not_overflow_at_the_bounds() {
    let spec = spec(["mean:i", "count"]);
    let points = vec![[0.1, 0.1, 0.1, 1_048_576.0]; MAX_POINTS as usize];
    let mut layout = Layout::plain();
    layout.point_step = 16;
    let cloud = Cloud::of(&points);
    let (row, _) = fresh(&message(&cloud, &layout), &spec, DType::F32).unwrap();
    let occupied = row.chunks_exact(4).filter(|bytes| *bytes != [0; 4]);
    let values: Vec<f32> =
        occupied.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(values, [1_048_576.0, MAX_POINTS as f32]);
}

#[test]
fn a_cloud_of_too_many_points_is_dropped_and_leaves_the_slot_clear() {
    let spec = spec(["count"]);
    let mut voxelizer = Voxelizer::new(&spec, DType::F32, 1);
    let mut row = vec![0; voxelizer.row_bytes()];
    let good = message(&Cloud::of(&[[0.1, 0.1, 0.1, 0.0]]), &Layout::plain());
    encode(&mut voxelizer, &good, &spec, 0, &mut row).unwrap();
    assert!(row.iter().any(|byte| *byte != 0));
    let field = |offset| FieldAt { offset, kind: FieldType::Float32 };
    let view = PointsView {
        width: MAX_POINTS as usize + 1,
        height: 1,
        point_step: 12,
        row_step: 12 * (MAX_POINTS as usize + 1),
        big_endian: false,
        fields: &[field(0), field(4), field(8)],
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: None,
        data: &[],
    };
    let error = Rejected::from(voxelizer.encode(&view, Slot::new(0), &mut row).unwrap_err());
    assert_eq!(error.reason, DropReason::OutOfRange);
    assert_eq!(error.detail, "points: expected at most 4194304, found 4194305");
    assert!(row.iter().all(|byte| *byte == 0));
    let other = PointsView { fields: &[], ..view };
    let error = Rejected::from(voxelizer.encode(&other, Slot::new(0), &mut row).unwrap_err());
    assert_eq!(error.reason, DropReason::MissingField);
}

#[test]
fn what_f16_cannot_hold_drops_the_cloud_and_leaves_the_slot_clear_and_usable() {
    let in_one = |values: &[f32]| -> Vec<[f32; 4]> {
        values.iter().map(|value| [0.1, 0.1, 0.1, *value]).collect()
    };
    let fits = in_one(&[65_519.0, 65_519.0]);
    let beyond = in_one(&[65_520.0]);
    let crowd = vec![[0.1, 0.1, 0.1, 1.0]; 65_520];
    let huge = in_one(&[f32::MAX]);
    for (dtype, channels, bad) in [
        (DType::F16, ["count", "mean:i"], &beyond),
        (DType::F16, ["count", "max:i"], &beyond),
        (DType::F16, ["occupancy", "count"], &crowd),
        (DType::Bf16, ["count", "max:i"], &huge),
    ] {
        let spec = spec(channels);
        let mut voxelizer = Voxelizer::new(&spec, dtype, 2);
        let mut row = vec![0; voxelizer.row_bytes()];
        let message = |points: &[[f32; 4]]| message(&Cloud::of(points), &Layout::plain());
        encode(&mut voxelizer, &message(&fits), &spec, 1, &mut row).unwrap();
        let error = encode(&mut voxelizer, &message(bad), &spec, 1, &mut row).unwrap_err();
        assert_eq!(error.reason, DropReason::OutOfRange, "{channels:?}");
        assert!(error.detail.contains(dtype.name()), "{}", error.detail);
        assert!(row.iter().all(|byte| *byte == 0), "{channels:?}");
        encode(&mut voxelizer, &message(&fits), &spec, 1, &mut row).unwrap();
        assert_eq!(row, fresh(&message(&fits), &spec, dtype).unwrap().0);
    }
}

#[test]
fn numpy_agrees() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../tests/golden/voxel_golden.json"))
            .unwrap();
    let bits = |value: &serde_json::Value| f32::from_bits(value.as_u64().unwrap() as u32);
    let floats = |value: &serde_json::Value| -> Vec<f32> {
        value.as_array().unwrap().iter().map(bits).collect()
    };
    let mut spec = spec(["count", "mean:i", "max:i", "mean:x", "max:z"]);
    let shape = golden["shape"].as_array().unwrap();
    spec.grid = Grid {
        origin_m: <[f32; 3]>::try_from(floats(&golden["origin"])).unwrap().map(f64::from),
        size_m: bits(&golden["size"]),
        shape: std::array::from_fn(|axis| shape[axis].as_u64().unwrap() as usize),
    };
    let transform = floats(&golden["transform"]);
    spec.t_base_sensor =
        std::array::from_fn(|r| std::array::from_fn(|c| f64::from(transform[4 * r + c])));
    let points: Vec<[f32; 4]> =
        floats(&golden["points"]).chunks_exact(4).map(|p| p.try_into().unwrap()).collect();
    let bytes = message(&Cloud::of(&points), &Layout::plain());
    let (row, report) = fresh(&bytes, &spec, DType::F32).unwrap();
    assert_eq!(report.outside, golden["outside"].as_u64().unwrap());
    assert_eq!(report.non_finite, golden["non_finite"].as_u64().unwrap());
    let volume: usize = spec.grid.shape.iter().product();
    let mut expected = vec![0u8; row.len()];
    for voxel in golden["voxels"].as_array().unwrap() {
        let at = voxel[0].as_u64().unwrap() as usize;
        for channel in 0..5 {
            let value = bits(&voxel[1 + channel]);
            expected[4 * (channel * volume + at)..][..4].copy_from_slice(&value.to_le_bytes());
        }
    }
    assert!(golden["voxels"].as_array().unwrap().len() > 20);
    assert_eq!(row, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_cloud_in_any_layout_gives_the_reference(
        (cloud, layout) in support::any_cloud(),
        spec in support::any_spec(),
        dtype in support::any_dtype(),
    ) {
        match (fresh(&message(&cloud, &layout), &spec, dtype), reference(&cloud, &layout, &spec, dtype)) {
            (Ok((row, report)), Some((expected, expected_report))) => {
                prop_assert_eq!(report, expected_report);
                prop_assert!(row == expected, "rows differ");
            }
            (Err(error), None) => prop_assert_eq!(error.reason, DropReason::OutOfRange),
            (found, _) => prop_assert!(false, "only one of the two is an error: {:?}", found.err()),
        }
    }

    /// The list has the voxels of the grid that are not empty, in the order of the grid.
    #[test]
    fn sparse_rows_list_what_dense_rows_hold(
        clouds in prop::collection::vec((support::any_cloud(), 0usize..2), 1..5),
        spec in support::any_spec(),
        most in 1usize..80,
        dtype in support::any_dtype(),
    ) {
        let mut spec = spec;
        // Which voxels are occupied: a dense row may hold zeros there.
        spec.channels.push(Reduction::Occupancy);
        let mut sparse = spec.clone();
        sparse.max_voxels = Some(most);
        let mut voxelizer = Voxelizer::new(&sparse, dtype, 2);
        let mut rows = [(); 2].map(|()| vec![0; voxelizer.row_bytes()]);
        for ((cloud, layout), slot) in clouds {
            let bytes = message(&cloud, &layout);
            let Ok((dense, mut report)) = fresh(&bytes, &spec, dtype) else { continue };
            let found = encode(&mut voxelizer, &bytes, &sparse, slot, &mut rows[slot]);
            let (expected, occupied) = listed(&dense, &sparse, dtype, most);
            report.voxels_in_use = occupied.min(most) as u32;
            report.voxels_beyond = occupied.saturating_sub(most) as u64;
            prop_assert_eq!(found.unwrap(), report);
            prop_assert!(rows[slot] == expected, "rows differ");
            prop_assert_eq!(voxelizer.occupied(Slot::new(slot)), occupied.min(most));
        }
    }

    #[test]
    fn the_order_of_the_points_does_not_matter(
        (mut cloud, layout) in support::any_cloud(),
        mut spec in support::any_spec(),
        turn in 0usize..2000,
    ) {
        spec.channels.retain(|channel| !matches!(channel, Reduction::Last(_)));
        spec.channels.push(Reduction::Count);
        let before = fresh(&message(&cloud, &layout), &spec, DType::F32).unwrap();
        let len = cloud.points.len().max(1);
        cloud.points.reverse();
        cloud.points.rotate_left(turn % len);
        prop_assert_eq!(fresh(&message(&cloud, &layout), &spec, DType::F32).unwrap(), before);
    }

    #[test]
    fn a_slot_keeps_nothing_of_what_it_held(
        clouds in prop::collection::vec((support::any_cloud(), 0usize..3), 1..12),
        spec in support::any_spec(),
        dtype in support::any_dtype(),
    ) {
        let mut voxelizer = Voxelizer::new(&spec, dtype, 3);
        let mut rows = vec![vec![0; voxelizer.row_bytes()]; 3];
        for ((cloud, layout), slot) in clouds {
            let bytes = message(&cloud, &layout);
            let found = encode(&mut voxelizer, &bytes, &spec, slot, &mut rows[slot]);
            let zeros = vec![0; rows[slot].len()];
            let (expected, expected_report) = match fresh(&bytes, &spec, dtype) {
                Ok((row, report)) => (row, Ok(report)),
                Err(error) => (zeros, Err(error)),
            };
            prop_assert_eq!(found, expected_report);
            prop_assert!(rows[slot] == expected, "rows differ");
            let volume: usize = spec.grid.shape.iter().product();
            prop_assert!(voxelizer.occupied(Slot::new(slot)) <= volume.min(cloud.points.len()));
        }
    }

    #[test]
    fn damaged_messages_never_panic(
        (cloud, layout) in support::any_cloud(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        header_only in any::<bool>(),
    ) {
        let spec = spec(["count", "mean:i", "max:i"]);
        let mut bytes = message(&cloud, &layout);
        let range = if header_only { 160.min(bytes.len()) } else { bytes.len() };
        bytes[at.index(range)] = byte;
        if let Err(error) = fresh(&bytes, &spec, DType::F32) {
            prop_assert!(!error.detail.is_empty());
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let spec = spec(["mean:i"]);
        prop_assert!(point_cloud2::decode(&bytes, &extra(&spec), &mut Vec::new()).is_err());
    }
}

#[test]
fn a_message_cut_short_anywhere_is_malformed() {
    let spec = spec(["count", "mean:i"]);
    let points = [[0.1, 0.2, 0.3, 4.0], [0.5, 0.6, 0.7, 8.0]];
    let bytes = message(&Cloud::of(&points), &Layout::plain());
    for len in 0..bytes.len() {
        let error =
            point_cloud2::decode(&bytes[..len], &extra(&spec), &mut Vec::new()).unwrap_err();
        assert_eq!(error.reason, DropReason::Malformed, "{len} bytes: {error}");
    }
    assert!(point_cloud2::decode(&bytes, &extra(&spec), &mut Vec::new()).is_ok());
}

#[test]
fn an_axis_as_feature_takes_no_extra_field() {
    let spec = spec(["max:z", "mean:i", "max:i", "mean:x"]);
    assert_eq!(extra_fields(&spec).collect::<Vec<_>>(), ["i"]);
    assert_eq!(spec.channels[0], Reduction::Max("z".into()));
}
