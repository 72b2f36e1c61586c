use super::*;

#[test]
fn an_inverse_undoes_and_a_singular_matrix_has_none() {
    let m = [[980.0, 3.0, 950.0], [0.5, 985.0, 545.0], [1e-5, -2e-5, 1.0]];
    let one = product(&m, &inverse(&m).unwrap());
    for (row, column) in (0..3).flat_map(|row| (0..3).map(move |column| (row, column))) {
        let expected = f64::from(u8::from(row == column));
        assert!((one[row][column] - expected).abs() < 1e-9, "{one:?}");
    }
    assert_eq!(inverse(&[[0.0; 3]; 3]), None);
    assert_eq!(inverse(&[[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 0.0, 1.0]]), None);
    assert_eq!(inverse(&[[f64::INFINITY, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), None);
}

#[test]
fn what_is_behind_the_camera_is_not_shown() {
    let behind = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]];
    for lens in [Lens::Polynomial([0.0; POLYNOMIAL]), Lens::Equidistant([0.0; EQUIDISTANT])] {
        let camera = Camera {
            size: [4, 3],
            first: [0, 0],
            lens,
            focal: [1.0; 2],
            centre: [1.0; 2],
            ray: behind,
        };
        let table = camera.remap(&[0..4, 0..3]).unwrap();
        assert!(table.source_lines().is_empty());
        let front = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let table = Camera { ray: front, ..camera }.remap(&[0..4, 0..3]).unwrap();
        assert!(!table.source_lines().is_empty());
    }
}
