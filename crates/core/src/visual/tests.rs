//! Views of tensors that a pipeline has made of real messages.

use std::sync::Arc;

use super::*;
use crate::backend::cpu::CpuBackend;
use crate::cdr::{CdrError, Reader, messages};
use crate::layout::Layout;
use crate::message::TensorMessage;
use crate::pipeline::{Arrival, Pipeline};
use robocache_ops::time::{Epoch, Stamp};

const MS: i64 = 1_000_000;

fn pipeline(streams: &str) -> Pipeline {
    let config = format!("rate_hz: 100\nbase_frame: base\nstreams:\n{streams}");
    let config = crate::config::parse(&config, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    Pipeline::new(config, backend).unwrap()
}

fn camera(more: &str) -> String {
    format!(
        "  camera:
    {{type: sensor_msgs/Image, topic: /c, max_age_ms: 50, history: {{steps: 2, step_ms: 10}}, {more}}}
"
    )
}

/// Bytes that differ from pixel to pixel.
fn pixels(width: usize, height: usize) -> Vec<u8> {
    (0..3 * width * height).map(|at| (at * 37 % 256) as u8).collect()
}

fn image(ns: i64, width: usize, height: usize, encoding: &str, data: &[u8]) -> Vec<u8> {
    let image = messages::Image {
        stamp: Stamp::from_nanos(ns),
        frame_id: "camera",
        height: height as u32,
        width: width as u32,
        encoding,
        step: (data.len() / height) as u32,
    };
    image.to_cdr(Vec::new(), |bytes| bytes.extend_from_slice(data))
}

/// The tensor of the tick at this instant.
fn tick(pipeline: &Pipeline, ns: i64) -> TensorMessage {
    let mut message = pipeline.new_message();
    let number = pipeline.config().grid.tick_at(Stamp::from_nanos(ns));
    pipeline.tick(number, Epoch::default(), &mut message).unwrap();
    message
}

fn push(pipeline: &Pipeline, ns: i64, message: &[u8]) {
    let input = pipeline.config().input_ids().next().unwrap();
    let arrival =
        Arrival { stamp: Some(Stamp::from_nanos(ns)), max_ahead_ns: MS, ..Arrival::default() };
    pipeline.push(input, message, arrival).unwrap();
}

/// An image as it is published.
#[derive(Debug, PartialEq)]
struct Seen {
    ns: i64,
    frame: String,
    size: [u32; 2],
    pixels: Vec<u8>,
}

fn read_image(message: &[u8]) -> Result<Seen, CdrError> {
    let mut reader = Reader::new(message)?;
    let sec = reader.i32()?;
    let nanosec = reader.u32()?;
    let frame = String::from_utf8_lossy(reader.string_bytes()?).into_owned();
    let height = reader.u32()?;
    let width = reader.u32()?;
    assert_eq!(reader.string_bytes()?, b"rgb8");
    assert_eq!((reader.u8()?, reader.u32()?), (0, 3 * width));
    let pixels = reader.bytes()?.to_vec();
    assert_eq!(reader.left(), 0);
    let ns = i64::from(sec) * 1_000_000_000 + i64::from(nanosec);
    Ok(Seen { ns, frame, size: [width, height], pixels })
}

fn seen(pipeline: &Pipeline, tensor: &TensorMessage) -> Seen {
    let (views, hidden) = View::all(pipeline.config());
    assert_eq!((views.len(), hidden.len()), (1, 0));
    let tensor = TensorRead::read(tensor.message()).unwrap();
    read_image(&views[0].message(&tensor, Vec::new()).unwrap()).unwrap()
}

#[test]
fn the_pixels_of_the_newest_step_come_back_whatever_the_normalisation() {
    let width = 6;
    let height = 4;
    let sent = pixels(width, height);
    let normalised = "mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]";
    for (dtype, image_keys, most) in [
        ("f32", "color: rgb", 0),
        ("f32", normalised, 0),
        ("f16", normalised, 0),
        ("bf16", "color: rgb", 1),
        ("u8", "color: rgb", 0),
        ("f32", "color: bgr, mean: [0.1, 0.2, 0.3]", 0),
    ] {
        let keys =
            format!("dtype: {dtype}, image: {{resize: {{width: 6, height: 4}}, {image_keys}}}");
        let pipeline = pipeline(&camera(&keys));
        push(&pipeline, 5 * MS, &image(5 * MS, width, height, "rgb8", &vec![9; sent.len()]));
        push(&pipeline, 15 * MS, &image(15 * MS, width, height, "rgb8", &sent));
        let seen = seen(&pipeline, &tick(&pipeline, 20 * MS));
        assert_eq!((seen.ns, seen.frame.as_str(), seen.size), (20 * MS, "base", [6, 4]));
        let worst = seen.pixels.iter().zip(&sent).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(worst.unwrap() <= most, "{keys}: {worst:?}");
    }
}

#[test]
fn a_grey_image_is_grey_and_an_invalid_one_is_crossed_out() {
    let sent: Vec<u8> = (0..64).map(|at| at * 4).collect();
    let pipeline =
        pipeline(&camera("fill: last, image: {resize: {width: 8, height: 8}, color: mono}"));
    push(&pipeline, 10 * MS, &image(10 * MS, 8, 8, "mono8", &sent));
    let valid = seen(&pipeline, &tick(&pipeline, 10 * MS));
    let grey: Vec<u8> = sent.iter().flat_map(|byte| [*byte; 3]).collect();
    assert_eq!(valid.pixels, grey);
    // After its age limit the last image is still in the tensor.
    let late = seen(&pipeline, &tick(&pipeline, 100 * MS));
    assert_eq!(late.ns, 100 * MS);
    let mut red = Vec::new();
    let mut same = 0;
    for (at, (pixel, sent)) in late.pixels.as_chunks::<3>().0.iter().zip(&sent).enumerate() {
        match pixel {
            [255, 0, 0] => red.push([at % 8, at / 8]),
            pixel => {
                assert_eq!(pixel, &[*sent; 3]);
                same += 1;
            }
        }
    }
    for at in 0..8 {
        for edge in [[at, 0], [at, 7], [0, at], [7, at], [at, at], [at, 7 - at]] {
            assert!(red.contains(&edge), "{edge:?} of {red:?}");
        }
    }
    assert_eq!((red.len(), same), (28 + 12, 24));
}

#[test]
fn depth_is_dark_if_near_and_black_if_there_is_none() {
    let keys = "image: {resize: {width: 4, height: 4, fit: stretch}, \
                depth: {min_m: 0.5, max_m: 9, fill_m: 0.1}}, dtype: bf16";
    let pipeline = pipeline(&camera(keys));
    let mut metres = [0.7f32; 16];
    (metres[0], metres[5], metres[9]) = (1.0, f32::NAN, 8.0);
    let data: Vec<u8> = metres.iter().flat_map(|value| value.to_le_bytes()).collect();
    push(&pipeline, 10 * MS, &image(10 * MS, 4, 4, "32FC1", &data));
    let seen = seen(&pipeline, &tick(&pipeline, 10 * MS));
    let pixel = |at: usize| &seen.pixels[3 * at..3 * at + 3];
    assert_eq!(pixel(5), [0, 0, 0]);
    let green = |at: usize| pixel(at)[1];
    assert!(0 < green(1) && green(1) < green(0) && green(0) < green(9), "{:?}", seen.pixels);
}

#[test]
fn the_cubes_of_a_grid_are_its_voxels_in_use() {
    let pipeline = pipeline(
        "  lidar:
    type: sensor_msgs/PointCloud2
    topic: /l
    max_age_ms: 50
    cloud:
      origin_m: [0, 0, 0]
      size_m: 0.5
      shape: [4, 3, 2]
      channels: [{reduce: count}, {reduce: mean, field: z}]
",
    );
    let (views, hidden) = View::all(pipeline.config());
    assert_eq!((views.len(), hidden.len()), (1, 0));
    assert_eq!(views[0].ros_type(), "visualization_msgs/msg/MarkerArray");
    let field = |name, offset| messages::PointField { name, offset, datatype: 7, count: 1 };
    let cloud = messages::PointCloud2 {
        stamp: Stamp::from_nanos(10 * MS),
        frame_id: "lidar",
        height: 1,
        width: 3,
        fields: &[field("x", 0), field("y", 4), field("z", 8)],
        is_bigendian: false,
        point_step: 12,
        row_step: 36,
        is_dense: true,
    };
    let points = [[0.1f32, 0.1, 0.1], [1.9, 1.4, 0.9], [0.2, 0.2, 0.2]];
    let bytes: Vec<u8> = points.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    push(&pipeline, 10 * MS, &cloud.to_cdr(Vec::new(), |data| data.extend_from_slice(&bytes)));
    let message = |ns| {
        let tensor = tick(&pipeline, ns);
        views[0].message(&TensorRead::read(tensor.message()).unwrap(), vec![7; 9]).unwrap()
    };
    let [cubes, edges] = read_markers(&message(10 * MS)).unwrap();
    assert_eq!((cubes.id, cubes.kind, cubes.ns), (0, 6, 10 * MS));
    assert_eq!((cubes.frame.as_str(), cubes.name.as_str()), ("base", "lidar"));
    assert_eq!(cubes.scale, [0.5; 3]);
    assert_eq!(cubes.points, [[0.25, 0.25, 0.25], [1.75, 1.25, 0.75]]);
    assert_ne!(cubes.colors[0], cubes.colors[1], "z is low and high");
    assert_eq!((edges.id, edges.kind, edges.points.len()), (1, 5, 24));
    assert!(edges.points.contains(&[2.0, 1.5, 1.0]));
    let red = [1.0, 0.0, 0.0, 1.0];
    assert!(!cubes.colors.contains(&red) && !edges.colors.contains(&red));
    let [cubes, edges] = read_markers(&message(500 * MS)).unwrap();
    assert_eq!((cubes.ns, cubes.points.len()), (500 * MS, 0), "fill: zero");
    assert!(edges.colors.iter().all(|color| *color == red), "the step is invalid");
}

struct MarkerSeen {
    ns: i64,
    frame: String,
    name: String,
    id: i32,
    kind: i32,
    scale: [f64; 3],
    points: Vec<[f64; 3]>,
    colors: Vec<[f32; 4]>,
}

fn read_markers(message: &[u8]) -> Result<[MarkerSeen; 2], CdrError> {
    let mut reader = Reader::new(message)?;
    assert_eq!(reader.u32()?, 2);
    let markers = [read_marker(&mut reader)?, read_marker(&mut reader)?];
    assert_eq!(reader.left(), 0);
    Ok(markers)
}

fn read_marker(reader: &mut Reader<'_>) -> Result<MarkerSeen, CdrError> {
    let ns = i64::from(reader.i32()?) * 1_000_000_000 + i64::from(reader.u32()?);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let frame = text(reader.string_bytes()?);
    let name = text(reader.string_bytes()?);
    let id = reader.i32()?;
    let kind = reader.i32()?;
    let action = reader.i32()?;
    assert_eq!(action, 0);
    let array = |reader: &mut Reader<'_>| -> Result<[f64; 3], CdrError> {
        Ok([reader.f64()?, reader.f64()?, reader.f64()?])
    };
    assert_eq!(array(reader)?, [0.0; 3]);
    assert_eq!(array(reader)?, [0.0; 3]);
    assert_eq!(reader.f64()?, 1.0);
    let scale = array(reader)?;
    reader.skip(4, 16 + 8)?; // colour, lifetime
    reader.u8()?;
    let points = (0..reader.u32()?).map(|_| array(reader)).collect::<Result<Vec<_>, _>>()?;
    let part = |reader: &mut Reader<'_>| reader.u32().map(f32::from_bits);
    let colors = (0..reader.u32()?)
        .map(|_| Ok([part(reader)?, part(reader)?, part(reader)?, part(reader)?]))
        .collect::<Result<Vec<_>, _>>()?;
    assert_eq!(points.len(), colors.len());
    reader.string_bytes()?;
    reader.skip(4, 8)?;
    for _ in 0..2 {
        reader.string_bytes()?;
    }
    assert_eq!((reader.bytes()?, reader.u32()?), (&[][..], 0));
    for _ in 0..3 {
        reader.string_bytes()?;
    }
    assert_eq!((reader.bytes()?, reader.u8()?), (&[][..], 0));
    Ok(MarkerSeen { ns, frame, name, id, kind, scale, points, colors })
}

#[test]
fn vectors_are_not_shown_and_a_broken_message_is_an_error() {
    let pipeline = pipeline(
        "  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}
",
    );
    assert_eq!(View::all(pipeline.config()), (Vec::new(), Vec::new()));
    let message = tick(&pipeline, 20 * MS);
    let whole = TensorRead::read(message.message()).unwrap();
    let step = whole.segment("w").unwrap().newest().unwrap();
    assert_eq!((step.valid, step.bytes.len()), (false, 24));
    assert!(whole.segment("v").is_none());
    for length in 0..message.message().len() {
        assert!(TensorRead::read(&message.message()[..length]).is_err(), "{length}");
    }
}
