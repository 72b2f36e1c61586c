//! Rows with clouds of several inputs: condensed points, which every backend encodes to the same bits. A
//! row of one cloud has the bits of the cloud itself.

use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::Sample;
use robocache_ops::align::{MergeSpec, Slot, Strategy, ValidWhen};
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::cpu::{Condenser, Voxelizer};
use robocache_ops::voxelize::{
    FieldAt, FieldType, IDENTITY, PointDrops, PointsView, VoxelSpec, VoxelizeError,
};

use crate::backends::clouds::{SLOTS, random_points, random_spec};
use crate::backends::random::Random;
use crate::backends::subject::{BOUNDS, Kind, Pair, stream};

const CLOUDS_PER_PAIR: usize = 20;
const INPUTS: usize = 3;

pub(super) fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(CLOUDS_PER_PAIR) {
        let mut random = Random::new(number as u64 + 70_000);
        let spec = random_spec(&mut random);
        let dtype = random.dtype();
        let case = format!("pair {number}: {spec:?} {dtype:?}");
        let source = EncoderSpec::Voxels(spec.clone());
        let mut stream = stream("lidar", source, Strategy::Hold, dtype, 1, SLOTS - 1);
        stream.bounds.max_points = BOUNDS.max_points;
        let max_age_ns = vec![50_000_000; INPUTS];
        let valid_when = ValidWhen::All;
        stream.merge = Some(MergeSpec { max_age_ns, valid_when });
        let mut pair = Pair::new(kind, vec![stream], number % 3 != 0);
        let mut condenser = Condenser::new(&spec);
        for at in 0..CLOUDS_PER_PAIR {
            let case = format!("{case}, row {at}");
            let mut joined = vec![];
            let mut points = vec![];
            for _ in 0..random.range(1, INPUTS) {
                let (cloud, form) = random_points(&mut random, &spec);
                let data = form.bytes(&cloud);
                let drops = condenser.condense(&form.view(&data), &mut points).unwrap();
                check_one(&spec, dtype, &form.view(&data), &points, drops, &case);
                joined.extend_from_slice(&points);
            }
            let fields = fields(&condenser);
            let view = Sample::Points(view(&joined, &fields));
            if pair.encode(0, at % SLOTS, view, &case).is_some() {
                pair.compare_slot(at % SLOTS, &case);
            }
        }
    }
}

/// The condensed points of one cloud become the row of the cloud, and the drops are the same.
fn check_one(
    spec: &VoxelSpec,
    dtype: DType,
    cloud: &PointsView<'_>,
    points: &[u8],
    drops: PointDrops,
    case: &str,
) {
    let fields = fields(&Condenser::new(spec));
    let condensed = spec.of_condensed();
    let encode = |spec: &VoxelSpec, view: &PointsView<'_>| {
        let mut voxelizer = Voxelizer::new(spec, dtype, 1);
        let mut row = vec![0; voxelizer.row_bytes()];
        let drops: Result<PointDrops, VoxelizeError> =
            voxelizer.encode(view, Slot::new(0), &mut row);
        (row, drops)
    };
    let (expected, of_cloud) = encode(spec, cloud);
    let (found, of_row) = encode(&condensed, &view(points, &fields));
    assert!(found == expected, "{case}: condensed points give another row");
    match (of_cloud, of_row) {
        (Ok(of_cloud), Ok(of_row)) => {
            let PointDrops { too_few, voxels_beyond, voxels_in_use, .. } = of_row;
            let whole = PointDrops { too_few, voxels_beyond, voxels_in_use, ..drops };
            assert_eq!(whole, of_cloud, "{case}");
            let left = PointDrops { too_few, voxels_beyond, voxels_in_use, ..Default::default() };
            assert_eq!(of_row, left, "{case}: a condensed point was dropped");
        }
        (of_cloud, of_row) => assert_eq!(of_row, of_cloud, "{case}"),
    }
}

fn fields(condenser: &Condenser) -> Vec<FieldAt> {
    let field = |at| FieldAt { offset: 4 * at, kind: FieldType::Float32 };
    (0..condenser.point_bytes() / 4).map(field).collect()
}

fn view<'a>(points: &'a [u8], fields: &'a [FieldAt]) -> PointsView<'a> {
    let point_step = 4 * fields.len();
    PointsView {
        width: points.len() / point_step,
        height: 1,
        point_step,
        row_step: points.len(),
        big_endian: false,
        fields,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: None,
        data: points,
    }
}
