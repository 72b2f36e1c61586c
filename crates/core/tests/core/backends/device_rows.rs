//! Clouds and rows that are in memory of the caller on the device: rows that something else has written, and
//! shapes that are elsewhere for each launch.

use std::ops::Range;
use std::sync::Arc;

use robocache_ops::align::Slot;
use robocache_ops::device::{Device, DeviceBuffer, Inputs, RowPlace, Stream};
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::cuda::{DevicePoints, EncodeError, Voxelizer};
use robocache_ops::voxelize::{
    PointDrops, PointsView, Reduction, SparseRow, VoxelSpec, VoxelizeError, cpu,
};

use crate::backends::clouds::Form;
use crate::backends::sifted_clouds::{along_x, part_of_the_robot, row_spec, t_part_cloud, words};
use crate::backends::subject::Kind;

const MOST_POINTS: usize = 4000;
/// Byte that fills the memory of a row before anything else.
const DIRT: u8 = 0xAB;

/// A voxelizer and the rows of its slots.
struct Rows {
    gpu: Voxelizer,
    rows: Vec<DeviceBuffer>,
    stream: Stream,
    /// The parts of a row that count: of a sparse row not what is between them.
    parts: [Range<usize>; 2],
}

impl Rows {
    fn new(device: &Arc<Device>, spec: &VoxelSpec, dtype: DType, slots: usize) -> Self {
        let gpu = Voxelizer::new(device, spec, dtype, slots, MOST_POINTS).unwrap();
        let row = || DeviceBuffer::new(device, gpu.row_bytes()).unwrap();
        let rows = (0..slots).map(|_| row()).collect();
        let parts = match SparseRow::new(spec, dtype) {
            None => [0..gpu.row_bytes(), 0..0],
            Some(row) => [0..row.features(), row.coordinates_at()..row.bytes()],
        };
        Rows { gpu, rows, stream: Stream::new(device, false).unwrap(), parts }
    }

    /// Encodes a cloud of the host.
    fn encode(&mut self, view: &PointsView<'_>, slot: usize) -> PointDrops {
        self.gpu
            .encode(view, Slot::new(slot), RowPlace { rows: &self.rows[slot], at: 0 }, &self.stream)
            .unwrap()
    }

    /// Puts the clouds at `address` on the stream, for these slots.
    #[allow(unsafe_code)]
    fn launch(&mut self, view: &PointsView<'_>, address: u64, slot: usize) {
        let points = DevicePoints::of(view, address);
        let row = self.rows[slot].address();
        // SAFETY: the caller has the points of the view at this address. They and the row wait for the device
        // before they go, and no kernel writes the points.
        unsafe {
            self.gpu.launch(&points, Slot::new(slot), row, Inputs::Ready, &self.stream).unwrap();
        };
    }

    /// True if the parts of a row that count are as expected.
    fn holds(&self, slot: usize, expected: &[u8]) -> bool {
        let mut found = vec![0; expected.len()];
        self.rows[slot].read(&mut found).unwrap();
        self.parts.iter().all(|part| found[part.clone()] == expected[part.clone()])
    }
}

/// The row of a cloud and its drops, on the CPU.
fn expected(spec: &VoxelSpec, dtype: DType, view: &PointsView<'_>) -> (Vec<u8>, PointDrops) {
    let mut voxelizer = cpu::Voxelizer::new(spec, dtype, 1);
    let mut row = vec![0; voxelizer.row_bytes()];
    let drops = voxelizer.encode(view, Slot::new(0), &mut row).unwrap();
    (row, drops)
}

/// Rows that are counted, reduced, sifted and sparse.
fn specs() -> Vec<VoxelSpec> {
    let counted = VoxelSpec { channels: vec![Reduction::Count], ..row_spec(3000) };
    let mean = Reduction::Mean("a".into());
    let reduced = VoxelSpec { channels: vec![mean, Reduction::Count], ..row_spec(3000) };
    let sifted = VoxelSpec { min_points: 2, ..reduced.clone() };
    let sparse = VoxelSpec { max_voxels: Some(701), ..reduced.clone() };
    let both = VoxelSpec { min_points: 2, max_voxels: Some(701), ..row_spec(3000) };
    vec![counted, reduced, sifted, sparse, both]
}

/// Points in every third voxel from the first on, two in each.
fn cloud(spec: &VoxelSpec, voxels: usize, first: usize) -> (Vec<u8>, Form) {
    let mut points = along_x((0..2 * voxels).map(|i| (first + i / 2 * 3) as f64 % 3000.0 + 0.5));
    let form = words(&points, spec);
    points.iter_mut().for_each(|point| point.truncate(form.fields.len()));
    (form.bytes(&points), form)
}

/// Each cloud is encoded into a row of any content, after a call of `forget` for the row.
pub(super) fn check_forgotten(kind: &Kind, _: usize) {
    let device = kind.device().expect("a GPU");
    for spec in specs() {
        for dtype in [DType::F32, DType::F16] {
            let mut rows = Rows::new(device, &spec, dtype, 2);
            let clouds = [(800, 0), (5, 300), (0, 0), (400, 7), (900, 1)];
            for (number, (voxels, first)) in clouds.into_iter().enumerate() {
                let case = format!("{spec:?} {dtype:?}, cloud {number}");
                let (data, form) = cloud(&spec, voxels, first);
                let (expected, drops) = expected(&spec, dtype, &form.view(&data));
                // The other slot is never forgotten.
                for (slot, forgotten) in [(0, number % 2 == 1), (1, false)] {
                    if forgotten {
                        rows.rows[slot].fill(DIRT).unwrap();
                        rows.gpu.forget(Slot::new(slot), &rows.stream).unwrap();
                    }
                    assert_eq!(rows.encode(&form.view(&data), slot), drops, "{case}, slot {slot}");
                    assert!(rows.holds(slot, &expected), "{case}, slot {slot}");
                }
            }
            // What it is not told of stays: the test sees dirt.
            let (data, form) = cloud(&spec, 5, 0);
            let (expected, _) = expected(&spec, dtype, &form.view(&data));
            let (other, its_form) = cloud(&spec, 5, 300);
            rows.encode(&its_form.view(&other), 0);
            rows.rows[0].fill(DIRT).unwrap();
            rows.encode(&form.view(&data), 0);
            assert!(!rows.holds(0, &expected), "{spec:?}: dirt is overwritten anyway");
        }
    }
}

/// A sphere of the robot that is elsewhere for each of the launches that are queued.
pub(super) fn check_moving_shapes(kind: &Kind, _: usize) {
    let device = kind.device().expect("a GPU");
    for max_voxels in [None, Some(9)] {
        let spec = VoxelSpec { max_voxels, ..part_of_the_robot() };
        let places = [(2.0, 2), (7.5, 3), (7.5, 3), (-5.0, 0), (2.0, 2)];
        let points = along_x((0..10).map(|i| f64::from(i) + 0.5));
        let forms = places.map(|(x, _)| {
            let mut form = words(&points, &spec);
            form.t_shapes = vec![t_part_cloud(x)];
            form
        });
        let data = forms[0].bytes(&points);
        let on_device = DeviceBuffer::from_bytes(device, &data).unwrap();
        let outcomes = forms.each_ref().map(|form| expected(&spec, DType::F32, &form.view(&data)));
        for ((_, drops), (_, on_robot)) in outcomes.iter().zip(places) {
            assert_eq!(drops.on_robot, on_robot);
        }
        let mut rows = Rows::new(device, &spec, DType::F32, places.len());
        // Loads the kernels, so that nothing holds up the launches that count.
        rows.encode(&forms[3].view(&data), 0);
        for (slot, form) in forms.iter().enumerate() {
            rows.launch(&form.view(&data), on_device.address(), slot);
        }
        rows.gpu.finish(&rows.stream).unwrap();
        for (slot, (row, _)) in outcomes.iter().enumerate() {
            assert!(rows.holds(slot, row), "queued launch {slot}, {max_voxels:?}");
        }
        // One after the other, in one slot. The counts of points are compared too.
        for (number, ((row, drops), form)) in outcomes.iter().zip(&forms).enumerate() {
            rows.launch(&form.view(&data), on_device.address(), 0);
            assert_eq!(rows.gpu.finish(&rows.stream).unwrap(), *drops, "launch {number}");
            assert!(rows.holds(0, row), "launch {number}, {max_voxels:?}");
        }
        let missing = rows.gpu.set_shapes(&[], &rows.stream);
        let shapes = VoxelizeError::Shapes { expected: 1, found: 0 };
        assert_eq!(missing, Err(EncodeError::Cloud(shapes)));
    }
}
