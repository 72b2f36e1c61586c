//! Images and their `CameraInfo`.

use robocache_core::cdr::messages::CameraInfo;

use super::*;

/// The keys of a stream of images, whose rows have the size of the image.
fn image_keys(width: u32, height: u32, more: &str) -> String {
    format!(
        "type: sensor_msgs/Image, topic: /s, max_age_ms: 100, image: {{resize: {{width: {width}, \
         height: {height}, fit: stretch}}{more}}}"
    )
}

/// Keys of a stream of images with bytes from 0 to 255.
fn byte_keys(width: u32, height: u32, more: &str) -> String {
    format!("{}, dtype: u8", image_keys(width, height, more))
}

fn image(encoding: &str, [width, height]: [u32; 2], step: u32, order: u8, data: &[u8]) -> Vec<u8> {
    let mut writer = begun(10, "camera");
    writer.u32(height);
    writer.u32(width);
    writer.string(encoding);
    writer.u8(order);
    writer.u32(step);
    writer.bytes(data);
    writer.finish()
}

/// The numbers in these bytes, low byte first or high byte first.
fn bytes(numbers: &[u16], order: u8) -> Vec<u8> {
    let of = if order == 1 { u16::to_be_bytes } else { u16::to_le_bytes };
    numbers.iter().copied().flat_map(of).collect()
}

/// A mosaic of 4 x 4 pixels of one colour, R, G and B.
fn mosaic(pattern: &str, [red, green, blue]: [u16; 3]) -> Vec<u16> {
    let pattern = pattern.as_bytes();
    let place = |at: usize| pattern[2 * (at / 4 % 2) + at % 2];
    let number = |colour: u8| match colour {
        b'r' => red,
        b'g' => green,
        _ => blue,
    };
    (0..16).map(|at| number(place(at))).collect()
}

/// A row [3, 4, 4] of one colour.
fn colour(rgb: [u8; 3]) -> Answer {
    value(rgb.map(|byte| [f32::from(byte); 16]).concat())
}

const PATTERNS: [&str; 4] = ["rggb", "bggr", "gbrg", "grbg"];
const SIZE: [u32; 2] = [64, 48];

/// A gray image of a camera with these coefficients, undistorted.
fn seen_through(model: &str, d: &[f64]) -> (String, Vec<Given>) {
    let [width, height] = SIZE;
    let info = CameraInfo {
        stamp: NOW,
        frame_id: "camera",
        height,
        width,
        distortion_model: model,
        d,
        k: [40.0, 0.0, 32.0, 0.0, 40.0, 24.0, 0.0, 0.0, 1.0],
        r: [0.0; 9],
        p: [0.0; 12],
        binning: [0; 2],
        roi: [0; 4],
    };
    let data: Vec<u8> = (0..width * height).map(|at| (at * 7 % 251) as u8).collect();
    let keys = byte_keys(width, height, ", color: mono, undistort: {camera_info: /info}");
    let image = image("mono8", SIZE, width, 0, &data);
    (keys, vec![("s.camera_info", info.to_cdr(Vec::new())), ("s", image)])
}

/// A lens with padded coefficients: its images are those of the lens without the padding.
fn padded_lens(report: &'static str, model: &str, d: &[f64], used: usize) -> Case {
    let (keys, given) = seen_through(model, &d[..used]);
    let expected = answer(&keys, &given);
    let (_, straight) = seen_through("plumb_bob", &[0.0; 5]);
    assert_ne!(expected, answer(&keys, &straight), "{report}: the lens bends");
    let (keys, given) = seen_through(model, d);
    case(report, keys, given, expected)
}

#[test]
fn coefficients_of_a_lens_may_have_zeros_behind_them() {
    let five = [-0.0306, 0.0352, -0.000138, -0.000146, -0.01204];
    let eight = [0.2, -0.1, 0.001, 0.002, 0.05, 0.1, -0.02, 0.01];
    let zeros = |d: &[f64], count: usize| [d, &vec![0.0; count]].concat();
    check(vec![
        padded_lens("OrbbecSDK_ROS2#216", "plumb_bob", &zeros(&five, 3), 5),
        padded_lens("OrbbecSDK_ROS2#216, 4 numbers", "plumb_bob", &zeros(&five[..4], 4), 4),
        padded_lens("OrbbecSDK_ROS2#216, 8 of 9", "rational_polynomial", &zeros(&eight, 1), 8),
        padded_lens("OrbbecSDK_ROS2#216, 8 of 20", "rational_polynomial", &zeros(&eight, 12), 8),
        padded_lens("image_undistort#61", "equidistant", &[0.0; 5], 4),
        padded_lens("image_undistort#61, a lens", "equidistant", &zeros(&eight[..4], 1), 4),
    ]);
    let (keys, given) = seen_through("plumb_bob", &[zeros(&five, 2), vec![0.01]].concat());
    let expected = dropped(&[DropReason::Malformed, DropReason::NoCameraInfo]);
    check(vec![case("OrbbecSDK_ROS2#216, another number", keys, given, expected)]);
}

/// vision_opencv#394: lines of 638 pixels in 1920 bytes. The row of each channel.
fn padded_lines() -> (Vec<u8>, Vec<f32>) {
    let number = |x: usize, y: usize, channel: usize| ((x + 50 * y + 100 * channel) % 200) as u8;
    let mut data = Vec::new();
    for y in 0..2 {
        data.extend((0..638).flat_map(|x| [0, 1, 2].map(|channel| number(x, y, channel))));
        data.resize(1920 * (y + 1), 255);
    }
    let lines = (0..6).map(|at| (at / 2, at % 2));
    let row =
        lines.flat_map(|(channel, y)| (0..638).map(move |x| f32::from(number(x, y, channel))));
    (data, row.collect())
}

#[test]
fn images() {
    let (lines, row) = padded_lines();
    let mut cases = vec![
        case(
            "vision_opencv#394",
            byte_keys(638, 2, ""),
            to_s([image("rgb8", [638, 2], 1920, 0, &lines)]),
            value(row),
        ),
        // A step of half a line is never half an image.
        case(
            "vision_opencv#548",
            image_keys(1280, 2, ", depth: {}"),
            to_s([image("16UC1", [1280, 2], 1280, 0, &[1; 2 * 1280])]),
            dropped(&[DropReason::Malformed]),
        ),
        // A step of 0 is no step, even if the data has the length of all lines.
        case(
            "softkinetic#25",
            byte_keys(4, 2, ""),
            to_s([image("mono8", [4, 2], 0, 0, &[1; 8])]),
            dropped(&[DropReason::Malformed]),
        ),
    ];
    for (order, data) in [(1, [0x01, 0xF3]), (0, [0xF3, 0x01])] {
        cases.push(case(
            "librealsense#2147",
            image_keys(1, 1, ", depth: {}"),
            to_s([image("16UC1", [1, 1], 2, order, &data)]),
            value([0.499]),
        ));
    }
    for pattern in PATTERNS {
        let data: Vec<u8> =
            mosaic(pattern, [200, 100, 50]).into_iter().map(|number| number as u8).collect();
        cases.push(case(
            "ros2_unbag#42, astrobee#420",
            byte_keys(4, 4, ""),
            to_s([image(&format!("bayer_{pattern}8"), [4, 4], 4, 0, &data)]),
            colour([200, 100, 50]),
        ));
        for order in [0, 1] {
            // 51200 of 65535 is 199.2 of 255.
            let data = bytes(&mosaic(pattern, [51_200, 25_600, 12_850]), order);
            cases.push(case(
                "rviz#887, harvesters#19",
                byte_keys(4, 4, ""),
                to_s([image(&format!("bayer_{pattern}16"), [4, 4], 8, order, &data)]),
                colour([199, 100, 50]),
            ));
        }
    }
    check(cases);
}
