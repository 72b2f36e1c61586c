//! Reports of results that a pipeline has made of real messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::messages;
use robocache_core::layout::Layout;
use robocache_core::message::{Publication, TensorInfo, TensorMessage};
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_data::output::{Info as FileInfo, McapOutput, Output};
use robocache_ops::time::{Epoch, Stamp};
use robocache_runtime::Tick;
use robocache_tools::view::{Looked, StepValidity, Track, ViewOptions, of_tensors, page, source};
use serde_json::json;

const MS: i64 = 1_000_000;
/// An instant like that of a real clock.
const T0: i64 = 1_795_000_000_000_000_000;
const CONFIG: &str = "rate_hz: 100
base_frame: base
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 25, lag_ms: 10, history: {steps: 2, step_ms: 10}}
  camera:
    {type: sensor_msgs/Image, topic: /c, max_age_ms: 50, image: {resize: {width: 6, height: 4}, mean: [0.5, 0.5, 0.5]}}
  points:
    type: sensor_msgs/PointCloud2
    topic: /p
    max_age_ms: 100
    cloud: {origin_m: [0, 0, 0], size_m: 0.5, shape: [4, 3, 2], channels: [{reduce: count}, {reduce: max, field: z}]}
  sparse:
    type: sensor_msgs/PointCloud2
    topic: /p
    max_age_ms: 100
    cloud:
      {origin_m: [0, 0, 0], size_m: 0.5, shape: [4, 3, 2], channels: [{reduce: count}], output: sparse, max_voxels: 8}
";

fn pipeline() -> Pipeline {
    let config = robocache_core::config::parse(CONFIG, "<i>test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    Pipeline::new(config, backend).unwrap()
}

fn info(pipeline: &Pipeline) -> Vec<u8> {
    let stamp = Stamp::ZERO;
    pipeline.info(&Publication { stamp, topics: &[], digest: true, backend: "replay" })
}

fn push(pipeline: &Pipeline, at: Stamp) {
    let vector = [1.0, 2.0, 3.0];
    let wrench = messages::WrenchStamped { stamp: at, frame_id: "", force: vector, torque: vector };
    let pixels: Vec<u8> = (0..6 * 4 * 3).map(|at| at * 3).collect();
    let image = messages::Image {
        stamp: at,
        frame_id: "",
        height: 4,
        width: 6,
        encoding: "rgb8",
        step: 18,
    };
    let field = |name, offset| messages::PointField { name, offset, datatype: 7, count: 1 };
    let cloud = messages::PointCloud2 {
        stamp: at,
        frame_id: "",
        height: 1,
        width: 2,
        fields: &[field("x", 0), field("y", 4), field("z", 8)],
        is_bigendian: false,
        point_step: 12,
        row_step: 24,
        is_dense: true,
    };
    let points = [[0.1f32, 0.1, 0.1], [1.9, 1.4, 0.9]];
    let points: Vec<u8> = points.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    let image = image.to_cdr(Vec::new(), |data| data.extend_from_slice(&pixels));
    let cloud = cloud.to_cdr(Vec::new(), |data| data.extend_from_slice(&points));
    let wrench = wrench.to_cdr(Vec::new());
    for (input, bytes) in pipeline.config().input_ids().zip([&wrench, &image, &cloud, &cloud]) {
        let epoch = Epoch::default();
        let arrival = Arrival { stamp: Some(at), epoch, max_ahead_ns: MS, ..Arrival::default() };
        pipeline.push(input, bytes, arrival).unwrap();
    }
}

/// The tensor of the tick at this instant.
fn tick(pipeline: &Pipeline, at: Stamp) -> (Tick, TensorMessage) {
    let mut message = pipeline.new_message();
    let number = pipeline.config().grid.tick_at(at);
    pipeline.tick(number, Epoch::default(), &mut message).unwrap();
    (Tick { number, epoch: Epoch::default(), at, changes: 0 }, message)
}

/// A result of `ticks` ticks. The sensors are silent in the second half.
fn result(name: &str, ticks: i64) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("view-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("pick <one>.mcap");
    let pipeline = pipeline();
    let start = Stamp::from_nanos(T0);
    let about = FileInfo::of(&pipeline, true, start);
    let mut output = McapOutput::create(&path, about, 1).unwrap();
    for at in 0..ticks {
        let now = start.offset(at * 10 * MS);
        if at <= ticks / 2 {
            push(&pipeline, now);
        }
        let (tick, message) = tick(&pipeline, now);
        output.tick(tick, &message).unwrap();
    }
    output.complete(&json!({"bag": "bag"})).unwrap();
    path
}

fn read(path: &Path, budget: u64) -> (Track, Looked) {
    let episodes = source::episodes(path).unwrap();
    assert_eq!(episodes.len(), 1);
    episodes[0].read(budget, 4).unwrap()
}

#[test]
fn what_tensors_mean_is_read_as_it_was_written() {
    let bytes = info(&pipeline());
    let info = TensorInfo::read(&bytes).unwrap();
    assert_eq!((info.base_frame.as_str(), info.period_ns), ("base", 10 * MS));
    assert_eq!(info.config_file, "<i>test.yaml");
    let names: Vec<_> = info.segments.iter().map(|segment| segment.name.as_str()).collect();
    assert_eq!(names, ["w", "camera", "points", "sparse", "sparse.coordinates"]);
    let wrench = &info.segments[0];
    let camera = &info.segments[1];
    let points = &info.segments[2];
    assert_eq!(
        (wrench.lag_ns, wrench.max_age_ns, wrench.present_step()),
        (10 * MS, 25 * MS, Some(1))
    );
    assert_eq!((wrench.channels.len(), wrench.channels[0].as_str()), (6, "force.x"));
    assert_eq!((camera.layout.as_str(), &camera.mean[..]), ("chw", &[0.5; 3][..]));
    assert_eq!((points.size_m, &points.origin_m[..]), (0.5, &[0.0; 3][..]));
    // Without the contract it is a message of an earlier version. A middleware may have padded that.
    let earlier = bytes.len() - (4 + info.contract.len() + 1);
    for length in 0..bytes.len() {
        match TensorInfo::read(&bytes[..length]) {
            Ok(read) => {
                assert!((earlier - 3..earlier + 8).contains(&length), "{length}, not {earlier}");
                assert_eq!((read.contract.as_str(), read.segments), ("", info.segments.clone()));
            }
            Err(_) => assert!(length != earlier, "{length}"),
        }
    }
}

#[test]
fn a_track_has_what_the_ticks_had() {
    let (track, looked) = read(&result("track", 40), u64::MAX);
    assert_eq!((looked.ticks, looked.partly, &looked.problems[..]), (Some(40), false, &[][..]));
    assert_eq!(looked.text(&track), "All 40 tensors were looked at.");
    assert_eq!((track.ticks.len(), track.origin()), (40, Stamp::from_nanos(T0)));
    let wrench = &track.segments[0];
    // At the first tick its target is before the first row. The last row is that of tick 20, its age at tick k
    // is (k - 21) periods, and 25 ms are allowed.
    let state = |at: usize| wrench.state[at];
    assert_eq!([0, 1, 20, 23, 24, 39].map(state), {
        let [valid, _, too_old, no_row] = StepValidity::ALL;
        [no_row, valid, valid, valid, too_old, too_old]
    });
    assert_eq!((wrench.present, wrench.valid_steps[1], wrench.valid_steps[2]), (1, 1, 2));
    assert_eq!(wrench.age_ns[23], 20 * MS);
    let curve: Vec<_> = wrench.curve(1, track.origin()).collect();
    assert!(curve[0].1.is_nan() && curve[30].1.is_nan());
    assert_eq!(curve[10], (0.09, 2.0));
    let pictured: Vec<_> = track.kept.iter().map(|kept| kept.at).collect();
    assert_eq!(pictured, [5, 15, 24, 34], "the middles of four parts of 39 periods");
}

#[test]
fn of_a_large_result_a_part_is_read() {
    let path = result("part", 400);
    let size = 2_000;
    let (track, looked) = read(&path, 100 * size);
    assert_eq!((looked.ticks, looked.partly), (Some(400), true));
    let seen = track.ticks.len();
    assert!(seen > 60 && seen * track.tensor_bytes <= 100 * size as usize, "{seen}");
    assert!(track.ticks.is_sorted_by(|a, b| a.0 < b.0), "no tick twice");
    let first = track.ticks[0].1;
    let last = track.ticks[track.ticks.len() - 1].1;
    assert!(last.since(first) > 3 * 1_000 * MS, "along the whole episode");
    let neighbours = track.ticks.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1).count();
    assert!(neighbours > 40, "one stretch is whole: {neighbours}");
    // Between two ticks that do not follow each other, a curve has a gap, and no tensor is missing.
    assert_eq!(track.breaks.len(), seen - 1 - neighbours);
    assert!(track.breaks.iter().all(|broken| broken.unread));
    let curve = track.segments[0].curve(0, track.origin());
    assert_eq!(track.with_gaps(curve).count(), seen + track.breaks.len());
}

#[test]
fn a_report_shows_every_segment_and_escapes_names() {
    let path = result("page", 40);
    let make = || page(&path, &ViewOptions::default()).unwrap().html();
    let html = make();
    assert_eq!(html, make(), "the same bytes");
    // 4 pictures; 3 channels of grids from two sides, each with its bar of colours.
    assert_eq!(html.matches("<img ").count(), 4 + 3 * 2 * 2);
    for text in ["Cameras", "Voxel grids", "Curves", "Validity and ages", "Layout of the tensor"] {
        assert!(html.contains(&format!(">{text}</h2>")), "{text}");
    }
    assert!(html.contains("Episode pick &lt;one&gt;") && !html.contains("<one>"));
    assert!(html.contains("&lt;i&gt;test.yaml") && !html.contains("<i>test"));
    assert!(html.contains("2 voxels of 0.500 m are in use"));
}

#[test]
fn an_unknown_episode_and_a_folder_without_results_are_errors() {
    let path = result("errors", 3);
    let options = ViewOptions { episodes: vec!["other".into()], ..ViewOptions::default() };
    let error = page(path.parent().unwrap(), &options).unwrap_err().to_string();
    assert!(error.ends_with("expected an episode of pick <one>, found 'other'"), "{error}");
    let empty = path.parent().unwrap().join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let error = page(&empty, &ViewOptions::default()).unwrap_err().to_string();
    assert!(error.contains("expected tensors, which `robocache replay` writes"), "{error}");
    assert!(page(&empty.join("none"), &ViewOptions::default()).is_err());
}

#[test]
fn broken_tensors_are_counted_and_never_a_panic() {
    let pipeline = pipeline();
    push(&pipeline, Stamp::from_nanos(T0));
    let (_, message) = tick(&pipeline, Stamp::from_nanos(T0));
    let bytes = message.message();
    let mut track = Track::new(TensorInfo::read(&info(&pipeline)).ok());
    assert_eq!(track.note(&bytes[..bytes.len() / 2]), None);
    assert_eq!((track.malformed, track.ticks.len()), (1, 0));
    // One byte of each place in turn is another: lengths, shapes, offsets, flags, data.
    for at in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[at] = changed[at].wrapping_add(0x81);
        track.note(&changed);
        if at % 97 == 0 {
            let mut alone = Track::new(TensorInfo::read(&info(&pipeline)).ok());
            if let Some(at) = alone.note(&changed) {
                alone.keep(at, &changed);
            }
            let _ = of_tensors(&alone);
        }
    }
    track.note(bytes);
    assert!(!of_tensors(&track).is_empty());
}

/// A report that a program has put together, with a tensor in it.
fn written() -> serde_json::Value {
    use base64::Engine;
    let text = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let pipeline = pipeline();
    let at = Stamp::from_nanos(T0);
    push(&pipeline, at);
    push(&pipeline, at.offset(10 * MS));
    let (_, message) = tick(&pipeline, at.offset(10 * MS));
    let raw: Vec<_> = (0..200).map(|k| (T0 + k * 10 * MS, 0.01 * k as f64)).collect();
    let aligned: Vec<_> = raw.iter().map(|(at, value)| (at + MS, value + 0.001, -9 * MS)).collect();
    let channels = serde_json::json!([{"name": "force.x", "raw": raw, "aligned": aligned}]);
    let histogram = serde_json::json!({
        "title": "latencies", "x": "latency [ms]", "y": "ticks", "caption": "Latency of 3 ticks",
        "values": [1, 2, 3], "marks": [["p50", 2]],
    });
    serde_json::json!({
        "robocache_report": 1, "title": "<demo>", "passed": "All came.", "tiles": [["2", "overruns"]],
        "info": text(&info(&pipeline)), "tensors": [text(message.message())],
        "sections": [{"title": "Curves", "blocks": [
            {"compared": {"stream": "w", "value": "force [N]", "channels": channels}},
            {"histogram": histogram},
        ]}],
    })
}

fn write_json(name: &str, value: &serde_json::Value) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("view-{name}.json"));
    std::fs::write(&path, value.to_string()).unwrap();
    path
}

#[test]
fn a_written_report_may_have_tensors_and_curves_beside_them() {
    let path = write_json("written", &written());
    let html = page(&path, &ViewOptions::default()).unwrap().html();
    for text in [
        "&lt;demo&gt;",
        "All came.",
        "<b>2</b><span>overruns</span>",
        "Latency of 3 ticks",
        "0 of 199 values were held",
        ">camera <small>",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert_eq!(html.matches("<img ").count(), 1 + 3 * 2 * 2);
    let order = ["Cameras", "Voxel grids", "Curves", "Layout of the tensor"]
        .map(|title| html.find(&format!(">{title}</h2>")).unwrap_or_else(|| panic!("{title}")));
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_written_report_of_another_format_is_an_error() {
    for (name, key, value, expected) in [
        ("version", "robocache_report", 2.into(), "expected version 1, found 2"),
        ("unknown", "latency", 2.into(), "unknown field `latency`"),
        ("type", "tiles", "99".into(), "invalid type"),
        ("base64", "info", "%".into(), "info: expected base64"),
        ("info", "info", "AAEAAA==".into(), "info: expected a robocache_ros/msg/FusedTensorInfo"),
    ] {
        let mut changed = written();
        changed[key] = value;
        let error =
            page(&write_json(name, &changed), &ViewOptions::default()).unwrap_err().to_string();
        assert!(error.contains("expected a report"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_dataset_is_imported_before_it_is_viewed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("view-dataset");
    std::fs::create_dir_all(folder.join("meta")).unwrap();
    std::fs::write(folder.join("meta/info.json"), "{}").unwrap();
    let error = page(&folder, &ViewOptions::default()).unwrap_err().to_string();
    assert!(error.contains("found a dataset: `robocache import` makes rows of it"), "{error}");
}
