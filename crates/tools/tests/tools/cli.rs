//! The command line as a user meets it: output, errors and exit codes.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn robocache(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robocache"))
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// True if a line is the head of a table whose second column has this title.
fn has(line: &str, title: &str) -> bool {
    line.strip_prefix("segment").is_some_and(|rest| rest.trim_start().starts_with(title))
}

#[test]
fn check_prints_a_table() {
    let output = robocache(&["check", "config/robocache.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    let table = text(&output.stdout);
    // The row of this name in the table whose second column has this head.
    let columns = |head: &str, name: &str| -> Vec<String> {
        let mut lines = table.lines().skip_while(|line| !has(line, head));
        let line = lines.find(|line| line.starts_with(name)).unwrap();
        line.split("  ").map(|cell| cell.trim().to_owned()).filter(|c| !c.is_empty()).collect()
    };
    let head = ["segment", "shape", "dtype", "bytes", "offset", "strategy", "target times"];
    assert_eq!(columns("shape", "segment"), head);
    let targets = "tick - 170 ms to tick - 20 ms, 10 ms apart";
    let joints = ["joints", "[16, 28]", "f32", "1792", "1126400", "linear", targets];
    assert_eq!(columns("shape", "joints"), joints);
    let lidar = ["lidar", "[1, 2, 32, 64, 64]", "bf16", "524288", "602112"];
    assert_eq!(columns("shape", "lidar")[..5], lidar);
    assert_eq!(
        columns("type", "joints"),
        ["joints", "sensor_msgs/msg/JointState", "/joint_states", "header", "1024 (114.8 kB)"]
    );
    assert_eq!(columns("contents", "lidar"), ["lidar", "count, mean(intensity)"]);
    assert!(table.contains("1128640 bytes per tick, 112.9 MB/s"), "{table}");
    assert!(table.contains(" on a GPU that encodes, 100."), "{table}");
}

#[test]
fn the_table_says_what_a_row_holds_and_fits_in_a_terminal() {
    let fits = |output: &str| {
        let longest = output.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 120, "{longest}: {output}");
    };
    fits(&text(&robocache(&["check", "config/isaac_sim.yaml"]).stdout));
    let clouds = "
rate_hz: 100
streams:
  surroundings:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    inputs: [{topic: /front_lidar/points}, {topic: /rear_lidar/points}, {topic: /mast_lidar/points}]
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    fits(&text(&checked(&[], clouds).stdout));
    let output = text(&robocache(&["check", "config/robocache.yaml"]).stdout);
    fits(&output);
    // A segment is a part of the tensor.
    assert!(!output.contains("node's segment") && !output.contains("segment at"), "{output}");
    let joints: Vec<String> = (0..14).map(|at| format!("joint_{at}")).collect();
    let order = format!("position of {}; velocity of the same", joints.join(", "));
    let words: Vec<&str> = output.split_whitespace().collect();
    assert!(words.join(" ").contains(&order), "{output}");

    let config = "
rate_hz: 100
streams:
  same: {type: sensor_msgs/Image, topic: /a, max_age_ms: 50,
         image: {resize: {width: 8, height: 4}, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}}
  own: {type: sensor_msgs/Image, topic: /b, max_age_ms: 50,
        image: {resize: {width: 8, height: 4}, mean: [0.5, 0.25, 0], std: [0.5, 0.25, 1]}}
  bytes: {type: sensor_msgs/Image, topic: /c, max_age_ms: 50, dtype: u8, image: {resize: {width: 8, height: 4}}}
  wrench: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}
";
    let table = text(&checked(&[], config).stdout);
    for line in [
        "same     r, g, b from -1 to 1; pad_center into 8x4",
        "own      r from -1 to 1, g from -1 to 3, b from 0 to 1; pad_center into 8x4",
        "bytes    r, g, b from 0 to 255; pad_center into 8x4",
        "wrench   force.x, force.y, force.z, torque.x, torque.y, torque.z",
    ] {
        assert!(table.lines().any(|found| found == line), "{line}: {table}");
    }
}

#[test]
fn the_first_steps_print_what_check_prints() {
    let page = include_str!("../../../../docs/start.md");
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    assert_eq!(text(&checked(&[], block("yaml")).stdout), block("text"));
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(block("yaml")), "README.md has another configuration");
}

#[test]
fn a_written_wait_for_transforms_longer_than_a_lag_is_told() {
    let config = |tf: &str, lag_ms: u32| {
        format!(
            "
rate_hz: 100
{tf}
streams:
  odometry: {{type: nav_msgs/Odometry, topic: /odom, max_age_ms: 50, lag_ms: {lag_ms}, in_frame: map}}
  wrench: {{type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}}
"
        )
    };
    let warnings = |tf, lag_ms| report(&config(tf, lag_ms))["warnings"].clone();
    let written = "tf: {wait_ms: 60}";
    assert_eq!(warnings(written, 60), serde_json::json!([]));
    // A wait that is not written follows the lags.
    assert_eq!(warnings("", 60), serde_json::json!([]));
    // A cloud waits, too: for the frame of a shape, and for its deskew.
    let cloud = |keys: &str| {
        format!(
            "
rate_hz: 100
tf: {{wait_ms: 60}}
streams:
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 200
    lag_ms: 59
    {keys}
"
        )
    };
    let grid = "origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]";
    for keys in [
        format!(
            "cloud: {{{grid}, crop: [{{action: remove, frame: tool, min_m: [0, 0, 0], max_m: [1, 1, 1]}}]}}"
        ),
        format!("deskew: {{fixed_frame: odom, sensor: ouster}}\n    cloud: {{{grid}}}"),
        format!("t_base_sensor: tf\n    cloud: {{{grid}}}"),
    ] {
        let found = report(&cloud(&keys))["warnings"].to_string();
        assert!(
            found.contains("tf.wait_ms: expected at most 59 ms, the lag of streams.lidar"),
            "{found}"
        );
    }
    let shipped = robocache(&["check", "config/isaac_sim.yaml"]);
    assert!(!text(&shipped.stderr).contains("wait_ms"), "{}", text(&shipped.stderr));
    let found = warnings(written, 59)[0].as_str().unwrap().to_owned();
    let told = ":3: tf.wait_ms: expected at most 59 ms, the lag of streams.odometry, found 60 ms; a message that waits \
                so long for its transform comes after its tick";
    assert!(found.ends_with(told), "{found}");
}

#[test]
fn check_prints_json() {
    let output = robocache(&["check", "--json", "config/robocache.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["bytes_per_tick"], 1_128_640);
    assert_eq!(report["period_ns"], 10_000_000);
    // 4 bytes per pixel, and a table that is a hundredth of it; 4 fields of 8 bytes per point.
    let pinned = |at: usize| report["segments"][at]["pinned_bytes"].as_u64().unwrap();
    assert!((33_177_600..33_300_000).contains(&pinned(0)), "{}", pinned(0));
    assert_eq!((pinned(2), pinned(3)), (32 << 20, 0));
    assert_eq!(report["pinned_bytes"], 2 * pinned(0) + pinned(2));
    assert!(report["gpu_bytes"].as_u64() > report["pinned_bytes"].as_u64());
    let joints = &report["segments"][3];
    assert_eq!(joints["topics"], serde_json::json!(["/joint_states"]));
    assert_eq!(joints["name"], "joints");
    assert_eq!(joints["types"], serde_json::json!(["sensor_msgs/msg/JointState"]));
    assert_eq!(joints["shape"], serde_json::json!([16, 28]));
    assert_eq!(joints["byte_offset"], 1_126_400);
    let targets = joints["targets_ns"].as_array().unwrap();
    assert_eq!(
        (targets.len(), &targets[0], &targets[15]),
        (16, &(-170_000_000).into(), &(-20_000_000).into())
    );
}

/// The panels that the tree of a layout names.
fn named(tree: &serde_json::Value, out: &mut Vec<String>) {
    match tree.as_str() {
        Some(id) => out.push(id.to_owned()),
        None => ["first", "second"].iter().for_each(|at| named(&tree[at], out)),
    }
}

#[test]
fn check_writes_a_layout_for_foxglove() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.json");
    let arms = folder.path().join("arms.yaml");
    let joints = "type: sensor_msgs/JointState, max_age_ms: 50, fields: [position, velocity]";
    let streams = format!(
        "rate_hz: 50\nlag_ms: 10\nstreams:\n  left: {{{joints}, topic: left/joints, joints: [a, b]}}\n  \
         wrist: {{type: sensor_msgs/Image, topic: ~/wrist, max_age_ms: 50, image: {{resize: {{width: 8, height: 8}}}}}}\n  \
         cloud: {{type: sensor_msgs/PointCloud2, topic: /cloud, max_age_ms: 50, t_base_sensor: tf, \
         cloud: {{origin_m: [0, 0, 0], size_m: 1, shape: [8, 8, 8], channels: [{{reduce: count}}]}}}}\n"
    );
    std::fs::write(&arms, streams).unwrap();
    for config in ["config/robocache.yaml", arms.to_str().unwrap()] {
        let output = robocache(&["check", config, "--json", "--foxglove", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let layout: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let panels = layout["configById"].as_object().unwrap();
        let mut ids = Vec::new();
        named(&layout["layout"], &mut ids);
        ids.sort();
        assert_eq!(ids, panels.keys().cloned().collect::<Vec<_>>(), "each panel has one place");
        let of = |kind: &'static str| {
            let is = move |(id, _): &(&String, &serde_json::Value)| id.starts_with(kind);
            panels.iter().filter(is).map(|(_, panel)| panel)
        };

        let mut shown: Vec<_> =
            of("Image!").map(|panel| panel["imageMode"]["imageTopic"].as_str().unwrap()).collect();
        shown.sort_unstable();
        let scene = of("3D!").next().unwrap();
        assert_eq!(scene["followTf"], "base_link");
        let in_3d: Vec<_> = scene["topics"].as_object().unwrap().keys().cloned().collect();
        let curves = of("Plot!").flat_map(|panel| panel["paths"].as_array().unwrap());
        let curves: Vec<_> = curves.map(|curve| curve["value"].as_str().unwrap()).collect();

        let mut images = Vec::new();
        let mut clouds = Vec::new();
        for stream in report["streams"].as_array().unwrap() {
            let name = stream["name"].as_str().unwrap();
            let inputs = stream["inputs"].as_array().unwrap().iter();
            let topics = inputs.map(|input| match input["topic"].as_str().unwrap() {
                "left/joints" => "/left/joints".to_owned(),
                "~/wrist" => "/fusion_node/wrist".to_owned(),
                topic => topic.to_owned(),
            });
            let view = format!("/fused_tensor/view/{name}");
            match stream["kind"].as_str().unwrap() {
                "image" | "depth" => images.extend(topics.chain([view])),
                "voxels" => clouds.extend(topics.chain([view])),
                _ if stream["inputs"][0]["type"] == "sensor_msgs/msg/JointState" => {
                    for topic in topics {
                        let of_topic = format!("{topic}.position[0]");
                        assert!(curves.contains(&of_topic.as_str()), "{of_topic}: {curves:?}");
                    }
                }
                _ => {}
            }
            let age = format!(
                r#"/diagnostics.status[:]{{name=="/fusion_node: {name}"}}.values[:]{{key=="age_ms"}}.value"#
            );
            assert!(curves.contains(&age.as_str()), "{age}: {curves:?}");
        }
        images.sort();
        assert_eq!(shown, images);
        clouds.sort();
        assert_eq!(in_3d, clouds);
    }
    // Two joints with two fields.
    let layout = std::fs::read_to_string(&file).unwrap();
    assert_eq!(layout.matches(r#""value": "/left/joints."#).count(), 4, "{layout}");
}

#[test]
fn check_speaks_of_the_middleware_in_use() {
    let check = |middleware: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_robocache"))
            .args(["check", "config/robocache.yaml"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .env("RMW_IMPLEMENTATION", middleware)
            .output()
            .unwrap();
        text(&output.stdout)
    };
    let fast = check("");
    assert_eq!(check("rmw_fastrtps_dynamic_cpp"), fast);
    assert!(fast.contains("the node's shared memory (Fast DDS): "), "{fast}");
    let cyclone = check("rmw_cyclonedds_cpp");
    let words = "receive buffer of its subscribers (rmw_cyclonedds_cpp): 2.3 MB\n";
    assert!(cyclone.contains(words) && !cyclone.contains("Fast DDS"), "{cyclone}");
    // Two of the largest image that the configuration permits, and two of a vector.
    let row = |name: &str| {
        let rows = cyclone.lines().skip_while(|line| !line.starts_with("input "));
        rows.filter(|line| line.starts_with(name)).map(str::to_owned).collect::<String>()
    };
    assert!(row("input ").ends_with("receive buffer of the node"), "{cyclone}");
    assert!(row("joints").ends_with("at most 131.1 kB"), "{cyclone}");
    assert!(row("lidar").ends_with("two of its messages"), "{cyclone}");
}

#[test]
fn check_says_which_shared_memory_the_configuration_requires() {
    let config = "config/robocache.yaml";
    let table = text(&robocache(&["check", config]).stdout);
    let report = robocache(&["check", "--json", config]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let memory = &report["shared_memory"];
    let message = memory["message_bytes"].as_u64().unwrap();
    // The tensor, and names, shapes, validities and ages.
    assert!((1_128_640 + 500..1_128_640 + 5000).contains(&message), "{message}");
    assert_eq!(memory["node_segment_bytes"], 16 << 20);
    assert!(
        table.contains(&format!("{message} bytes; the node's shared memory (Fast DDS): 16.8 MB")),
        "{table}"
    );

    // 25 tensors in whole pages, each behind a page.
    let pages = (message.next_multiple_of(64) + 64).next_multiple_of(4096);
    let shared = memory["shared_output_bytes"].as_u64().unwrap();
    assert!([pages, 4096 + pages].map(|chunk| 25 * chunk + 16_384).contains(&shared), "{shared}");
    assert!(table.contains("MB of shared memory with shared_output, for 4 of them"), "{table}");

    let input = |name: &str| {
        let inputs = memory["inputs"].as_array().unwrap();
        inputs.iter().find(|input| input["name"] == name).unwrap()
    };
    assert_eq!(input("joints")["topic"], "/joint_states");
    assert_eq!(input("joints")["publisher_segment_bytes"], 512 << 10);
    // The default bounds of an image, in rgba8.
    let largest = 1024 + 4 * 3840 * 2160;
    assert_eq!(input("camera_front")["largest_message_bytes"], largest);
    assert_eq!(input("camera_front")["publisher_segment_bytes"], 2 * largest);
    assert!(input("lidar")["publisher_segment_bytes"].is_null(), "a point may have any size");
    let row = |topic: &str| table.lines().rev().find(|line| line.contains(topic)).unwrap();
    assert!(
        row("/camera_front/image_raw").ends_with("at most 33.2 MB  at most 66.4 MB"),
        "{table}"
    );
    assert!(row("/joint_states").ends_with("at most 524.3 kB"), "{table}");
}

#[test]
fn a_large_tensor_requires_a_segment_for_two_of_its_messages() {
    let config = "
rate_hz: 10
streams:
  camera: {type: sensor_msgs/Image, topic: /image, max_age_ms: 100, dtype: f32, ring_rows: 2,
           image: {resize: {width: 2048, height: 1024}}}
";
    let memory = &report(config)["shared_memory"];
    let message = memory["message_bytes"].as_u64().unwrap();
    assert!(message > 24 << 20, "{message}");
    assert_eq!(memory["node_segment_bytes"], 52 << 20);
}

/// Output of `robocache check` about a configuration with these arguments. It must be valid.
fn checked(args: &[&str], config: &str) -> Output {
    checked_with("", args, config)
}

/// Output of `robocache check`, with these prefixes of ROS.
fn checked_with(prefixes: &str, args: &[&str], config: &str) -> Output {
    let name =
        format!("robocache_streams_{}_{:?}.yaml", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_robocache"))
        .arg("check")
        .args(args)
        .arg(&path)
        .env("AMENT_PREFIX_PATH", prefixes)
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

/// The streams of a configuration, as `robocache check --json` reports them.
fn streams(config: &str) -> Vec<serde_json::Value> {
    std::mem::take(report(config)["streams"].as_array_mut().unwrap())
}

/// The report of a configuration, as `robocache check --json` prints it.
fn report(config: &str) -> serde_json::Value {
    serde_json::from_slice(&checked(&["--json"], config).stdout).unwrap()
}

#[test]
fn json_has_the_defaults_of_a_stream() {
    let config = "
rate_hz: 100
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 50}
  camera: {type: sensor_msgs/Image, topic: /image, max_age_ms: 100, image: {resize: {width: 8, height: 4}}}
";
    let [wrench, camera] = streams(config).try_into().unwrap();
    let channel = |name: &str| serde_json::json!({"name": name, "lane": "linear"});
    let names = ["force.x", "force.y", "force.z", "torque.x", "torque.y", "torque.z"];
    let expected = serde_json::json!({
        "name": "wrench",
        "kind": "vector",
        "encoder": {
            "channels": names.map(channel),
            "groups": [{"channels": [0, 1, 2, 3, 4, 5]}],
        },
        "fields": ["force", "torque"],
        "joints": [],
        "strategy": "linear",
        "lag_ns": 0,
        "steps": 1,
        "step_ns": 0,
        "horizon_steps": 1,
        "horizon_step_ns": 0,
        "max_ahead_ns": 50_000_000,
        "max_age_ns": 50_000_000,
        "max_gap_ns": 100_000_000,
        "fill": "zero",
        "required": false,
        "dtype": "f32",
        "ring_rows": 1024,
        "inputs": [{
            "name": "wrench",
            "topic": "/wrench",
            "type": "geometry_msgs/msg/WrenchStamped",
            "reliability": "auto",
            "durability": "auto",
            "depth": 256,
            "timeline": "header",
            "stamp_offset_ns": 0,
            "frame_id": null,
            "expected_rate_hz": null,
        }],
    });
    assert_eq!(wrench, expected);
    let encoder = serde_json::json!({
        "undistort": false,
        "crop": null,
        "layout": "chw",
        "resizes": [{
            "width": 8,
            "height": 4,
            "filter": "pil_bilinear",
            "fit": "pad_center",
            "crop_fraction": 1.0,
        }],
        "color": "rgb",
        "mean": [0.0, 0.0, 0.0],
        "std": [1.0, 1.0, 1.0],
        "pad_value": 0,
    });
    assert_eq!((&camera["kind"], &camera["encoder"]), (&"image".into(), &encoder));
    assert_eq!((&camera["strategy"], &camera["ring_rows"]), (&"hold".into(), &16.into()));
    assert_eq!(camera["inputs"][0]["depth"], 8);
    assert_eq!((&camera["max_width_px"], &camera["max_height_px"]), (&3840.into(), &2160.into()));
}

#[test]
fn check_shows_the_cameras_whose_images_are_undistorted_and_their_memory() {
    let config = "
rate_hz: 100
defaults:
  image: {max_age_ms: 100, image: {resize: {width: 8, height: 4}, max_width_px: 640, max_height_px: 480}}
streams:
  left: {type: sensor_msgs/Image, topic: /left, image: {undistort: {camera_info: /info}}}
  files:
    type: sensor_msgs/CompressedImage
    topic: /files
    image: {undistort: {camera_info: /info, qos: {durability: transient_local, depth: 1}}}
  plain: {type: sensor_msgs/Image, topic: /plain}
";
    let report = report(config);
    let camera = |at: usize| &report["streams"][at]["camera_info"];
    assert_eq!(camera(0)["name"], "left.camera_info");
    assert_eq!((&camera(0)["topic"], &camera(0)["depth"]), (&"/info".into(), &8.into()));
    assert_eq!(camera(0)["type"], "sensor_msgs/msg/CameraInfo");
    // Another quality of service needs another subscription.
    assert_eq!(camera(1)["name"], "files.camera_info");
    assert_eq!(camera(1)["durability"], "transient_local");
    assert!(camera(2).is_null());
    assert_eq!(report["streams"][0]["encoder"]["undistort"], true);
    let bytes = |at: usize| report["segments"][at]["gpu_bytes"].as_u64().unwrap();
    assert_eq!(bytes(0), bytes(2) + 9 * 640 * 480, "a table of 6 bytes and 3 bytes of colour");
    let inputs = report["shared_memory"]["inputs"].as_array().unwrap();
    assert!(inputs.iter().any(|input| input["name"] == "left.camera_info"));
    let table = text(&checked(&[], config).stdout);
    assert!(table.contains("undistort   left by /info\nundistort   files by /info\n"), "{table}");
}

#[test]
fn check_shows_the_memory_of_clouds_that_are_merged() {
    let config = "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    ring_rows: 4
    inputs: [{topic: /front}, {topic: /rear}]
    cloud:
      origin_m: [0, 0, 0]
      size_m: 1
      shape: [2, 2, 2]
      channels: [{reduce: mean, field: intensity}]
      max_points: 100000
";
    // Of each input 4 clouds and its part of the joined points, and one cloud that is arriving.
    assert_eq!(report(config)["streams"][0]["kept_bytes"], 11 * 16 * 100_000);
    let table = text(&checked(&[], config).stdout);
    assert!(table.contains("clouds      at most 17.6 MB in memory, kept for cells\n"), "{table}");
}

#[test]
fn json_has_the_grid_in_the_base_frame() {
    let config = "
rate_hz: 100
streams:
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 100
    t_base_sensor: {translation_m: [1, 2, 3], rotation_rpy_deg: [0, 0, 180]}
    cloud:
      origin_m: [-1, -2, 0]
      size_m: 0.5
      shape: [4, 8, 2]
      channels: [{reduce: count}, {reduce: occupancy}, {reduce: max, field: z}]
";
    let [lidar] = streams(config).try_into().unwrap();
    let encoder = &lidar["encoder"];
    assert_eq!(lidar["kind"], "voxels");
    assert_eq!(lidar["max_points"], 1 << 20);
    assert_eq!(encoder["origin_m"], serde_json::json!([-1.0, -2.0, 0.0]));
    assert_eq!((&encoder["size_m"], &encoder["shape"]), (&0.5.into(), &vec![4, 8, 2].into()));
    let number = |row: usize, column: usize| {
        lidar["inputs"][0]["t_base_sensor"][row][column].as_f64().unwrap()
    };
    let expected = [[-1.0, 0.0, 0.0, 1.0], [0.0, -1.0, 0.0, 2.0], [0.0, 0.0, 1.0, 3.0]];
    for (row, numbers) in expected.into_iter().enumerate() {
        for (column, expected) in numbers.into_iter().enumerate() {
            assert!((number(row, column) - expected).abs() < 1e-6, "{encoder}");
        }
    }
    let channels = serde_json::json!([{"reduce": "count"}, {"reduce": "occupancy"}, {"reduce": "max", "field": "z"}]);
    assert_eq!(encoder["channels"], channels);
}

#[test]
fn json_has_every_input_and_the_channels_of_every_group() {
    let config = "
rate_hz: 100
streams:
  joints:
    type: sensor_msgs/JointState
    max_age_ms: 50
    fields: [velocity, position]
    groups: {arm: [a, b], gripper: [c]}
    angular: [b]
    stamp_offset_ms: -1.5
    qos: {reliability: reliable}
    inputs:
      - {topic: /arm, expected_rate_hz: 250}
      - {topic: /gripper, frame_id: hand, qos: {depth: 3, durability: transient_local},
         timeline: receive}
";
    let [joints] = streams(config).try_into().unwrap();
    assert_eq!(joints["fields"], serde_json::json!(["velocity", "position"]));
    assert_eq!(joints["joints"], serde_json::json!(["a", "b", "c"]));
    let groups = serde_json::json!([{"channels": [0, 1, 3, 4]}, {"channels": [2, 5]}]);
    assert_eq!(joints["encoder"]["groups"], groups);
    let turning = serde_json::json!({"name": "b.position", "lane": "angular"});
    assert_eq!(joints["encoder"]["channels"][4], turning);
    let ros_type = "sensor_msgs/msg/JointState";
    let expected = serde_json::json!([
        {"name": "joints[0]", "topic": "/arm", "type": ros_type, "depth": 256,
         "reliability": "reliable", "durability": "auto", "timeline": "header", "stamp_offset_ns": -1_500_000, "frame_id": null,
         "expected_rate_hz": 250.0},
        {"name": "joints[1]", "topic": "/gripper", "type": ros_type, "depth": 3,
         "reliability": "reliable", "durability": "transient_local", "timeline": "receive", "stamp_offset_ns": -1_500_000, "frame_id": "hand",
         "expected_rate_hz": null},
    ]);
    assert_eq!(joints["inputs"], expected);
}

#[test]
fn check_warns_if_messages_are_further_apart_than_the_limit_of_their_age() {
    let config = "
rate_hz: 100
lag_ms: 200
streams:
  held: {type: sensor_msgs/Imu, topic: /a, max_age_ms: 30, expected_rate_hz: 30, strategy: hold}
  enough: {type: sensor_msgs/Imu, topic: /b, max_age_ms: 34, expected_rate_hz: 30, strategy: hold}
  near: {type: sensor_msgs/Imu, topic: /c, max_age_ms: 20, expected_rate_hz: 30, strategy: nearest}
  far: {type: sensor_msgs/Imu, topic: /d, max_age_ms: 10, expected_rate_hz: 30, strategy: nearest}
  gap: {type: sensor_msgs/Imu, topic: /e, max_age_ms: 50, max_gap_ms: 5, expected_rate_hz: 10}
";
    let output = checked(&["--json"], config);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let warning = |key: &str, least: &str, hz: i64, found: i64| {
        format!(
            "streams.{key}: expected at least {least} at {hz} Hz, found {found} ms; values are invalid \
             between two messages"
        )
    };
    let expected = [
        warning("held.max_age_ms", "33.334 ms, one interval", 30, 30),
        warning("far.max_age_ms", "16.667 ms, half an interval", 30, 10),
        warning("gap.max_gap_ms", "100 ms, one interval", 10, 5),
    ];
    assert_eq!(report["warnings"], serde_json::json!(expected));
}

#[test]
fn check_warns_if_a_lag_is_shorter_than_an_interval_and_does_not_fail() {
    let config = "
rate_hz: 100
lag_ms: 4
streams:
  short: {type: sensor_msgs/Imu, topic: /a, max_age_ms: 50, expected_rate_hz: 200}
  near: {type: sensor_msgs/Imu, topic: /b, max_age_ms: 50, expected_rate_hz: 200, strategy: nearest}
  held: {type: sensor_msgs/Imu, topic: /c, max_age_ms: 50, expected_rate_hz: 200, strategy: hold}
  own: {type: sensor_msgs/Imu, topic: /d, max_age_ms: 50, expected_rate_hz: 200, lag_ms: 5}
  unknown: {type: sensor_msgs/Imu, topic: /e, max_age_ms: 50}
  slow:
    type: sensor_msgs/JointState
    max_age_ms: 50
    joints: [a]
    inputs: [{topic: /f, expected_rate_hz: 1000}, {topic: /g, expected_rate_hz: 100}]
";
    let output = checked(&["--json"], config);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let warning = |stream: &str, strategy: &str, ms: i64, hz: i64| {
        format!(
            "streams.{stream}.lag_ms: {strategy} expects a lag of at least {ms} ms, one interval \
             at {hz} Hz, found 4 ms; the newest target can only be held"
        )
    };
    let expected = [
        warning("short", "slerp", 5, 200),
        warning("near", "nearest", 5, 200),
        warning("slow", "linear", 10, 100),
    ];
    assert_eq!(report["warnings"], serde_json::json!(expected));
    let stderr = text(&checked(&[], config).stderr);
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
    for (line, warning) in stderr.lines().zip(expected) {
        assert!(line.ends_with(&format!(".yaml: warning: {warning}")), "{line}");
    }
}

/// The warnings about a stream of clouds with these keys and inputs.
fn warnings(keys: &str, inputs: &str) -> serde_json::Value {
    let config = format!(
        "
rate_hz: 100
lag_ms: 200
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    {keys}
    inputs: [{inputs}]
    cloud: {{origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{{reduce: count}}]}}
"
    );
    report(&config)["warnings"].clone()
}

#[test]
fn check_warns_if_several_sensors_inherit_one_place() {
    let sentence = |topics: &str| {
        format!(
            "streams.cells.t_base_sensor: expected one for each sensor, found the same one for \
             {topics}; give each input its own, or `t_base_sensor: tf`"
        )
    };
    let warning = |topics: &str| serde_json::json!([sentence(topics)]);
    let none = serde_json::json!([]);
    let place = "t_base_sensor: {translation_m: [0, 0, 1]}";
    let other = "t_base_sensor: {translation_m: [0, 0, 2]}";
    assert_eq!(warnings(place, "{topic: /a}, {topic: /b}"), warning("/a and /b"));
    let three = format!("{{topic: /a}}, {{topic: /b, {other}}}, {{topic: /c}}");
    assert_eq!(warnings(place, &three), warning("/a and /c"));
    let two_places = format!("{three}, {{topic: /d, {other}}}");
    let expected = serde_json::json!([sentence("/a and /c"), sentence("/b and /d")]);
    assert_eq!(warnings(place, &two_places), expected);
    let own = format!("{{topic: /a}}, {{topic: /b, {other}}}");
    assert_eq!(warnings(place, &own), none);
    let tf = "t_base_sensor: tf";
    assert_eq!(warnings(tf, "{topic: /a}, {topic: /b}"), none);
    // Points may be in the base frame already, and one sensor has one place.
    assert_eq!(warnings("fill: zero", "{topic: /a}, {topic: /b}"), none);
    assert_eq!(warnings(place, "{topic: /a}"), none);
}

#[test]
fn check_warns_of_what_has_no_effect_for_a_single_cloud() {
    let age = "streams.cells.inputs[0].max_age_ms has no effect: this is the only input, and the \
               stream's max_age_ms is shorter";
    let needed =
        "streams.cells.valid_when has no effect: `inputs` has one entry, so nothing is merged";
    let [zero, any] = ["fill: zero", "valid_when: any"];
    assert_eq!(warnings(zero, "{topic: /a, max_age_ms: 60}"), serde_json::json!([age]));
    assert_eq!(warnings(any, "{topic: /a, max_age_ms: 60}"), serde_json::json!([age, needed]));
    assert_eq!(warnings(any, "{topic: /a, max_age_ms: 40}"), serde_json::json!([needed]));
    let none = serde_json::json!([]);
    assert_eq!(warnings(zero, "{topic: /a, max_age_ms: 40}"), none);
    assert_eq!(warnings(any, "{topic: /a, max_age_ms: 60}, {topic: /b}"), none);
}

#[test]
fn check_prints_all_errors_and_fails() {
    let file = "tests/configs/bad/several.yaml";
    let output = robocache(&["check", file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let announced =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file))
            .unwrap();
    let expected: Vec<_> = announced
        .lines()
        .map_while(|line| line.strip_prefix("# expect: "))
        .map(|line| format!("tests/configs/bad/{line}\n"))
        .collect();
    assert!(expected.len() > 1);
    assert_eq!(text(&output.stderr), expected.concat());
}

#[test]
fn a_missing_file_and_a_wrong_command_line_differ() {
    let missing = robocache(&["check", "no_such.yaml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("no_such.yaml: expected a readable configuration"));
    assert_eq!(robocache(&["check"]).status.code(), Some(2));
    assert_eq!(robocache(&["chekc"]).status.code(), Some(2));
}

#[test]
fn help_explains_the_command_and_its_exit_codes() {
    let help = robocache(&["check", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = text(&help.stdout);
    for word in ["--json", "Exit code", "config/robocache.yaml"] {
        assert!(help.contains(word), "{word} is missing:\n{help}");
    }
}

#[test]
fn check_ends_quietly_if_its_reader_has_seen_enough() {
    for arguments in
        [&["check", "config/robocache.yaml"][..], &["check", "--json", "config/robocache.yaml"]]
    {
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_robocache"))
            .args(arguments)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .stdout(OwnedFd::from(writer))
            .output()
            .unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
    // If stderr is closed, the exit code still shows the problems.
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_robocache"))
        .args(["check", "no_such_file.yaml"])
        .stderr(OwnedFd::from(writer))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn check_calls_the_segments_of_a_sparse_stream_as_the_tensor_does() {
    let config = "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 50
    cloud:
      origin_m: [0, 0, 0]
      size_m: 1
      shape: [16, 16, 4]
      channels: [{reduce: count}]
      output: sparse
      max_voxels: 500
";
    let report = report(config);
    let segment = |at: usize| &report["segments"][at];
    assert_eq!((&segment(0)["name"], &segment(0)["dtype"]), (&"cells".into(), &"f32".into()));
    let name = "cells.coordinates";
    assert_eq!((&segment(1)["name"], &segment(1)["dtype"]), (&name.into(), &"i32".into()));
    // The memory for the largest message counts once.
    assert_eq!(report["gpu_bytes"], segment(0)["gpu_bytes"]);
    assert_eq!(report["pinned_bytes"], segment(0)["pinned_bytes"]);
    let table = text(&checked(&[], config).stdout);
    assert!(table.contains("\ncells  ") && table.contains("\ncells.coordinates  "), "{table}");
}

#[test]
fn check_warns_of_a_package_that_the_node_will_not_find() {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let config = "
rate_hz: 100
streams:
  pose: {type: geometry_msgs/PoseStamped, topic: /pose, max_age_ms: 50, lag_ms: 200, in_frame: map}
";
    let warnings = |prefixes: &str| text(&checked_with(prefixes, &[], config).stderr);
    let warning = "no package tf2_msgs in AMENT_PREFIX_PATH, and the node needs it for /tf, /tf_static; \
                   install ros-$ROS_DISTRO-tf2-msgs, source the workspace that holds it, or run \
                   `scripts/setup.sh` and `. .ros/env.sh`";
    let found = warnings(definitions.to_str().unwrap());
    assert!(found.ends_with(&format!(".yaml: warning: {warning}\n")), "{found}");
    assert_eq!(found.lines().count(), 1, "{found}");
    assert_eq!(warnings(""), "", "no ROS is sourced, so nothing is known");
}

#[test]
fn check_shows_the_names_of_what_several_inputs_select() {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let config = "
rate_hz: 100
streams:
  hands:
    type: robot_msgs/Gripper
    max_age_ms: 50
    select: ['currents[0]']
    inputs: [INPUTS]
";
    let fields = |inputs: &str| {
        let config = config.replace("INPUTS", inputs);
        let output = checked_with(definitions.to_str().unwrap(), &["--json"], &config);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["streams"][0]["fields"].clone()
    };
    let expected = serde_json::json!(["/left:currents[0]", "/right:currents[0]"]);
    assert_eq!(fields("{topic: /left}, {topic: /right}"), expected);
    assert_eq!(fields("{topic: /left}"), serde_json::json!(["currents[0]"]));
}

#[test]
fn check_shows_the_types_of_several_inputs() {
    let config = "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    inputs: [{topic: /front}, {topic: /scan, type: sensor_msgs/LaserScan}]
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    let types = ["sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/LaserScan"];
    assert_eq!(report(config)["segments"][0]["types"], serde_json::json!(types));
    let table = text(&checked(&[], config).stdout);
    let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert!(lines.iter().any(|line| line.starts_with(&["cells", types[0], "/front", "header"])));
    assert!(lines.contains(&vec![types[1], "/scan", "header"]), "{table}");
}

#[test]
fn a_command_of_the_python_package_goes_on_there() {
    let folder = tempfile::tempdir().unwrap();
    let with_python = |script: &str, name: &str, arguments: &[&str]| {
        let python = folder.path().join("python3");
        std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&python, executable).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_robocache"));
        command.arg(name).args(arguments);
        command.env("PATH", format!("{}:/bin:/usr/bin", folder.path().display()));
        let started = command.stdout(Stdio::piped()).spawn().unwrap();
        (started.id(), started.wait_with_output().unwrap())
    };
    let given = ["recordings/", "--config", "robot.yaml", "--help"];
    for name in ["import", "to-lerobot", "watch"] {
        // Python takes the place of this process, with all arguments behind its program.
        let output = with_python("echo $$; shift 3; echo \"$*\"; exit 7", name, &given);
        let passed = format!("{} {name} {}", output.0, given.join(" "));
        assert_eq!(text(&output.1.stdout).split_whitespace().collect::<Vec<_>>().join(" "), passed);
        assert_eq!(output.1.status.code(), Some(7));
        // There is no Python.
        let mut command = Command::new(env!("CARGO_BIN_EXE_robocache"));
        let output = command.arg(name).env("PATH", "/nowhere").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("python -m robocache {name}")), "{said}");
    }
    // No registry has a package of this name.
    let help = text(&robocache(&["--help"]).stdout);
    assert!(
        help.contains("dist/WHEEL.whl[import,lerobot,ray]") && !help.contains("'robocache["),
        "{help}"
    );
    assert!(!help.contains("Given to the"), "{help}");
}
