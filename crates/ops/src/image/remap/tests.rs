use super::*;

/// The formula as it stands above, in the most direct way.
fn expected(view: &ImageView<'_>, table: &Remap, at: usize, channel: usize) -> u8 {
    let bytes = view.encoding.bytes_per_pixel();
    let [x, y] = pixel(table.points[at]);
    let fx = i64::from(table.fractions[at] % 32);
    let fy = i64::from(table.fractions[at] / 32);
    let a = |x: i32, y: i32| {
        let inside = x >= 0 && y >= 0 && (x as usize) < view.width && (y as usize) < view.height;
        if !inside {
            return 0;
        }
        i64::from(view.data[y as usize * view.step + x as usize * bytes + channel])
    };
    let sum = (32 - fx) * (32 - fy) * a(x, y)
        + fx * (32 - fy) * a(x + 1, y)
        + (32 - fx) * fy * a(x, y + 1)
        + fx * fy * a(x + 1, y + 1);
    ((sum + 512) >> 10) as u8
}

#[test]
fn every_pixel_is_the_weighted_mean_of_four_and_zero_outside() {
    let mut random = crate::random::Random::new(11);
    for case in 0..120 {
        let encoding = Encoding::ALL[case % 5];
        let bytes = encoding.bytes_per_pixel();
        let [width, height] = [1 + random.below(12) as usize, 1 + random.below(9) as usize];
        let step = width * bytes + random.below(4) as usize;
        let data: Vec<u8> =
            (0..(height - 1) * step + width * bytes).map(|_| random.bits() as u8).collect();
        let view = ImageView { encoding, width, height, step, data: &data, remap: None };
        let points: Vec<[f64; 2]> = (0..width * height)
            .map(|_| [width, height].map(|side| random.between(-3.0, side as f64 + 3.0)))
            .collect();
        let part = [0..width, 0..height];
        let table = Remap::new([width, height], [0, 0], &part, |x, y| points[y * width + x]);
        let mut out = vec![7; 3];
        let found = table.run(None, &view, &mut out).unwrap();
        let channels = found.encoding.bytes_per_pixel();
        for (at, byte) in found.data.iter().enumerate() {
            let pixel = at / channels;
            let channel = at % channels;
            assert_eq!(*byte, expected(&view, &table, pixel, channel), "{case} {view:?} {at}");
        }
    }
}

#[test]
fn a_part_is_what_the_whole_has_there() {
    let point = |x: usize, y: usize| [x as f64 * 0.9 + 1.3, y as f64 * 1.1 - 2.2];
    let whole = Remap::new([20, 15], [0, 0], &[0..20, 0..15], point);
    let part = Remap::new([20, 15], [0, 0], &[3..11, 4..9], point);
    for (line, points) in part.points.chunks(8).enumerate() {
        let first = (4 + line) * 20 + 3;
        assert_eq!(points, &whole.points[first..first + 8]);
    }
    // Lines 4 to 8 show 2.2 to 6.6.
    assert_eq!((part.source_lines(), whole.source_lines()), (2..8, 0..15));
}

#[test]
fn what_is_far_or_no_number_is_outside_and_ties_go_to_the_even_32nd() {
    let points = [
        [f64::NAN, 1.0],
        [1.0, f64::INFINITY],
        [-1e300, 1.0],
        [40_000.0, 1.0],
        [1.0 + 1.0 / 64.0, 2.0 + 3.0 / 64.0],
        [-1.0 / 32.0, -1.0],
    ];
    let table = Remap::new([6, 1], [0, 0], &[0..6, 0..1], |x, _| points[x]);
    assert!(table.points[..4].iter().all(|at| pixel(*at) == [i32::from(i16::MIN); 2]));
    assert_eq!((pixel(table.points[4]), table.fractions[4]), ([1, 2], 2 * 32));
    assert_eq!((pixel(table.points[5]), table.fractions[5]), ([-1, -1], 31));
}

#[test]
fn it_stops_when_it_is_overtaken() {
    let table = Remap::new([2, 2], [0, 0], &[0..2, 0..2], |x, y| [x as f64, y as f64]);
    let view = ImageView {
        encoding: Encoding::Mono8,
        width: 2,
        height: 2,
        step: 2,
        data: &[1, 2, 3, 4],
        remap: None,
    };
    let mut out = Vec::new();
    let overtaken = AtomicBool::new(true);
    assert!(table.run(Some(&overtaken), &view, &mut out).is_none());
    overtaken.store(false, Ordering::Release);
    assert_eq!(table.run(Some(&overtaken), &view, &mut out).unwrap().data, [1, 2, 3, 4]);
}
