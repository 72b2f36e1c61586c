//! A store of rows and a cache of episodes, made of a small bag: files for the targets, and seeds.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use robocache_core::cdr::messages::{Image, JointState, PointCloud2, PointField};
use robocache_data::episodes::{Episodes, Reading};
use robocache_ops::time::Stamp;

use super::episodes::{files, is_shard};
use super::records::{self, START, Topic};

/// Vectors of two groups, images with and without loss, dense and sparse clouds.
const CONFIG: &str = "
rate_hz: 100
defaults: {image: {max_age_ms: 50}, cloud: {max_age_ms: 50}}
streams:
  joints: {type: sensor_msgs/JointState, topic: /j, groups: {arm: [a], hand: [b]}, max_age_ms: 50}
  bytes: {type: sensor_msgs/Image, topic: /c, dtype: u8, image: {resize: {width: 4, height: 4}}}
  floats: {type: sensor_msgs/Image, topic: /c, image: {resize: {width: 4, height: 4}}}
  grid: {type: sensor_msgs/PointCloud2, topic: /p, cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}}
  sparse:
    type: sensor_msgs/PointCloud2
    topic: /p
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}], output: sparse, max_voxels: 4}
";

/// Names in the folder of [`made`]: of a store, and of its episodes as a cache saves them.
pub(crate) const STORE: &str = "rows.zarr";
pub(crate) const SAVED: &str = "saved";

/// A folder of this process with a store and saved episodes, made of a small bag.
pub(crate) fn made() -> &'static Path {
    static MADE: LazyLock<PathBuf> = LazyLock::new(|| {
        // An earlier process with this number may have left some.
        let _ = fs::remove_dir_all(records::folder("made"));
        let folder = records::folder("made");
        replay(&folder);
        let reading = Reading { threads: 1, ..Reading::default() };
        let episodes = Episodes::of_store(&folder.join(STORE), reading);
        let saved = episodes.and_then(|episodes| episodes.save(&folder.join(SAVED)));
        saved.unwrap_or_else(|error| panic!("{error}"));
        folder
    });
    &MADE
}

/// The files of the store: the number of a file, 0 or 254, and its content. And the first
/// chunks of its shards: the number, 255, and the bytes without their checksum.
pub(crate) fn store() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, (path, bytes)) in files(&made().join(STORE)).into_iter().enumerate() {
        let number = u8::try_from(number).expect("a byte for each file");
        seeds.extend([0, 254].map(|how| [&[number, how][..], &bytes].concat()));
        if is_shard(&path) {
            // The first chunk of its index is at the start. Chunks of such a store are small.
            let index = bytes.len() - 4;
            let place = (0..index / 16).rev().map(|chunks| index - 16 * chunks);
            let first = place.map(|at| &bytes[at..]).find(|index| index[..8] == [0; 8]);
            if let Some(length) = first.and_then(|index| index.get(8..16)) {
                let length = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
                let chunk = bytes.get(..length.saturating_sub(4)).unwrap_or_default();
                seeds.push([&[number, 255][..], chunk].concat());
            }
        }
    }
    seeds
}

/// The index of saved episodes, and their columns: 0 or the number of a column, and the content.
pub(crate) fn saved() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut columns = 0;
    for (path, bytes) in files(&made().join(SAVED)) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        match name {
            "index.json" => seeds.push([&[0][..], &bytes].concat()),
            "index.crc32c" => {}
            _ => {
                columns += 1;
                seeds.push([&[columns][..], &bytes].concat());
            }
        }
    }
    seeds
}

/// Replays a bag into a store of rows.
fn replay(folder: &Path) {
    let bag = folder.join("one.mcap");
    let config = folder.join("robot.yaml");
    records::bag(&bag, &topics(), None, &messages());
    fs::write(&config, CONFIG).expect("a file");
    let words = ["--format", "rows", "--images", "jpeg:90", "--jobs", "1"].map(OsString::from);
    let paths = [bag.into(), "--config".into(), config.into(), "--out".into(), folder.into()];
    let line = ["robocache".into(), "replay".into()].into_iter().chain(paths).chain(words);
    assert_eq!(robocache_tools::cli::run(line), 0, "a replay");
}

fn topics() -> Vec<Topic> {
    let types = [("/j", "JointState"), ("/c", "Image"), ("/p", "PointCloud2")];
    types
        .map(|(topic, name)| (topic.into(), format!("sensor_msgs/msg/{name}"), String::new()))
        .into()
}

/// 60 ms of all topics.
fn messages() -> Vec<records::Record> {
    let mut records = Vec::new();
    for k in 0..6u8 {
        let stamp = Stamp::from_nanos(START + 10_000_000 * i64::from(k));
        records.push((0, 10, joints(stamp, f64::from(k))));
        records.push((1, 0, image(stamp, k)));
        records.push((2, 0, cloud(stamp)));
    }
    records
}

fn joints(stamp: Stamp, at: f64) -> Vec<u8> {
    let name = &["a", "b"];
    let position = &[at, -at];
    JointState { stamp, frame_id: "", name, position, velocity: &[], effort: &[] }
        .to_cdr(Vec::new())
}

fn image(stamp: Stamp, shade: u8) -> Vec<u8> {
    let image = Image { stamp, frame_id: "", height: 4, width: 4, encoding: "rgb8", step: 12 };
    image.to_cdr(Vec::new(), |data| data.extend((0..48).map(|at| at * 4 + shade)))
}

fn cloud(stamp: Stamp) -> Vec<u8> {
    let field = |(at, name): (u32, _)| PointField { name, offset: 4 * at, datatype: 7, count: 1 };
    let fields = [(0, "x"), (1, "y"), (2, "z")].map(field);
    let cloud = PointCloud2 {
        stamp,
        frame_id: "",
        height: 1,
        width: 2,
        fields: &fields,
        is_bigendian: false,
        point_step: 12,
        row_step: 24,
        is_dense: true,
    };
    let numbers: [f32; 6] = [0.5, 0.5, 0.5, 1.5, 0.5, 0.5];
    cloud.to_cdr(Vec::new(), |data| data.extend(numbers.iter().flat_map(|it| it.to_le_bytes())))
}
