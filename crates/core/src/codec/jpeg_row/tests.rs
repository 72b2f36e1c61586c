use super::*;
use robocache_ops::random::Random;

/// A row in which every channel is another smooth picture, with some noise.
fn row(of: &JpegRow, random: &mut Random) -> Vec<u8> {
    let mut row = vec![0; of.row_bytes()];
    let channels = of.color.channels();
    for (at, value) in row.iter_mut().enumerate() {
        let plane = of.width * of.height;
        let (channel, pixel) = match of.layout {
            ImageLayout::Chw => (at / plane, at % plane),
            ImageLayout::Hwc => (at % channels, at / channels),
        };
        let x = pixel % of.width;
        let y = pixel / of.width;
        *value = (60 * channel + 2 * x + y + random.below(4) as usize).min(255) as u8;
    }
    row
}

fn all() -> impl Iterator<Item = JpegRow> {
    let colors = [Color::Rgb, Color::Bgr, Color::Mono];
    colors.into_iter().flat_map(|color| {
        [ImageLayout::Chw, ImageLayout::Hwc].map(|layout| JpegRow {
            quality: 95,
            width: 37,
            height: 21,
            color,
            layout,
        })
    })
}

#[test]
fn a_row_comes_back_almost_as_it_was() {
    let mut random = Random::new(3);
    for of in all() {
        let row = row(&of, &mut random);
        let mut pixels = vec![7; 3];
        let mut file = vec![7; 3];
        let mut again = vec![0; row.len()];
        of.encode(&row, &mut pixels, &mut file).unwrap();
        of.decode(&file, &mut pixels, &mut again).unwrap();
        let worst = row.iter().zip(&again).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!((1..=12).contains(&worst), "{of:?}: {worst}");
        let mut second = Vec::new();
        of.encode(&row, &mut pixels, &mut second).unwrap();
        assert_eq!(file, second, "{of:?}");
        let components = file.windows(2).position(|of| of == [0xFF, 0xC0]).map(|at| file[at + 9]);
        assert_eq!(components, Some(of.color.channels() as u8), "{of:?}");
    }
}

#[test]
fn the_file_does_not_depend_on_the_order_in_a_row() {
    let [chw, hwc] = [ImageLayout::Chw, ImageLayout::Hwc].map(|layout| JpegRow {
        quality: 80,
        width: 24,
        height: 16,
        color: Color::Rgb,
        layout,
    });
    let first = row(&hwc, &mut Random::new(5));
    let plane = 24 * 16;
    let planar: Vec<u8> = (0..3 * plane).map(|at| first[at % plane * 3 + at / plane]).collect();
    let blue_first: Vec<u8> = first.chunks(3).flat_map(|of| [of[2], of[1], of[0]]).collect();
    let bgr = JpegRow { color: Color::Bgr, ..hwc };
    let files = [(chw, &planar), (hwc, &first), (bgr, &blue_first)].map(|(of, row)| {
        let mut file = Vec::new();
        of.encode(row, &mut Vec::new(), &mut file).unwrap();
        file
    });
    assert!(files[0] == files[1] && files[0] == files[2]);
}

#[test]
fn every_damage_is_an_error_or_an_image() {
    let mut random = Random::new(11);
    let of = all().next().unwrap();
    let row = row(&of, &mut random);
    let mut pixels = Vec::new();
    let mut file = Vec::new();
    let mut again = vec![0; row.len()];
    of.encode(&row, &mut pixels, &mut file).unwrap();
    for cut in 0..file.len() {
        let error = of.decode(&file[..cut], &mut pixels, &mut again).unwrap_err();
        assert!(error.contains("expected"), "{cut}: {error}");
    }
    for _ in 0..2000 {
        let mut damaged = file.clone();
        let at = random.below(file.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        let _ = of.decode(&damaged, &mut pixels, &mut again);
    }
}

#[test]
fn another_image_is_an_error() {
    let of =
        JpegRow { quality: 95, width: 16, height: 8, color: Color::Rgb, layout: ImageLayout::Hwc };
    let file = |of: &JpegRow| {
        let mut file = Vec::new();
        of.encode(&vec![9; of.row_bytes()], &mut Vec::new(), &mut file).unwrap();
        file
    };
    let error =
        |file: &[u8]| of.decode(file, &mut Vec::new(), &mut vec![0; of.row_bytes()]).unwrap_err();
    let wide = error(&file(&JpegRow { width: 17, ..of }));
    assert_eq!(wide, "expected a JPEG file of 16x8 pixels, found 17x8");
    let gray = error(&file(&JpegRow { color: Color::Mono, ..of }));
    assert_eq!(gray, "expected 3 channels, found 1");
    assert!(error(b"\x89PNG\r\n\x1A\n").ends_with("found other bytes"));
    let short = of.encode(&[0; 5], &mut Vec::new(), &mut Vec::new()).unwrap_err();
    assert_eq!(short, "expected 384 bytes, found 5");
}
