use super::*;
use crate::encoder::{Drawn, Encoder};
use robocache_ops::voxelize::{Reduction, VoxelSpec};

fn view(channels: Vec<Reduction>) -> GridView {
    let grid = Grid { origin_m: [-1.0, 2.0, 0.5], size_m: 0.5, shape: [3, 2, 4] };
    match VoxelSpec::new(grid, channels).drawn(DType::F32) {
        Drawn::Cubes(cubes) => GridView::new(cubes, DType::F32),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_colour_says_a_value_before_the_count_before_the_height() {
    let mean = || Reduction::Mean("intensity".into());
    let colored_by = |channels| view(channels).colored_by;
    assert_eq!(colored_by(vec![Reduction::Count, Reduction::Occupancy, mean()]), Some(2));
    assert_eq!(colored_by(vec![Reduction::Occupancy, Reduction::Count]), Some(1));
    assert_eq!(colored_by(vec![Reduction::Occupancy]), None);
}

#[test]
fn a_cube_is_where_its_voxel_is_and_the_edges_are_around_all() {
    let view = view(vec![Reduction::Occupancy]);
    let mut values = [0.0f32; 24];
    values[2 + 3 * (1 + 2 * 3)] = 1.0;
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let step = StepRead { valid: true, target: Stamp::ZERO, count: 1, bytes: &bytes };
    let cubes = view.cubes(&step).unwrap();
    assert_eq!(cubes, [Cube { center_m: [0.25, 2.75, 2.25], value: 2.25 }]);
    assert!(view.cubes(&StepRead { bytes: &bytes[4..], ..step }).is_none());
    let edges = view.edges();
    assert_eq!(edges.len(), 24);
    for axis in 0..3 {
        let of = |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        assert!(edges.as_chunks::<2>().0.iter().all(|[a, b]| of(a, b) == 1));
        let low = [-1.0, 2.0, 0.5][axis];
        let high = [0.5, 3.0, 2.5][axis];
        assert!(edges.iter().all(|corner| corner[axis] == low || corner[axis] == high));
    }
}
