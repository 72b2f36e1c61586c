//! The seeds of the targets, made with the crates' own writers. Files of pictures and bad configurations come from the
//! tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use robocache_core::cdr::Writer;
use robocache_core::pipeline::Arrival;

use super::streams::STAMP;
use super::{records, sensors, streams};

/// The folder of the repository.
fn repository() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("fuzz").is_dir()).expect("the repository")
}

/// JPEG and PNG files of the tests.
pub(super) fn pictures() -> Vec<Vec<u8>> {
    files("tests/golden/compressed", &["jpg", "png"])
}

/// The files of a folder with these endings, in order.
fn files(folder: &str, endings: &[&str]) -> Vec<Vec<u8>> {
    let folder = repository().join(folder);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| endings.iter().any(|own| end == *own)));
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
}

fn with_choice(choice: u8, data: &[u8]) -> Vec<u8> {
    [&[choice], data].concat()
}

/// The messages of `streams.yaml`, each for every input of its topic, with and without a clock; and ticks.
///
/// # Panics
/// If an input accepts none: then the target would not get far behind its reader.
pub(super) fn messages() -> Vec<Vec<u8>> {
    let pipeline = streams::pipeline();
    let mut seeds = Vec::new();
    let mut refused = BTreeMap::new();
    for (topic, message) in sensors::messages(&pictures()) {
        for input in streams::inputs_of(pipeline.config(), topic) {
            if let Err(error) = pipeline.push(input, &message, Arrival::default()) {
                refused.insert(input.index(), error.to_string());
            }
            let choice = u8::try_from(input.index()).expect("an input for each choice");
            seeds.extend([0, 103].map(|at| [&[choice, at][..], &message].concat()));
        }
    }
    for input in pipeline.config().input_ids() {
        let accepted = pipeline.input_stats(input).accepted.get();
        let topic = &pipeline.config().input(input).topic;
        let why = refused.get(&input.index());
        assert!(accepted > 0, "expected a seed that {topic} accepts, found none: {why:?}");
    }
    seeds.extend([95, 101, 105, 180].map(|at| vec![255, at]));
    seeds
}

/// Seeds of a bag with the sensors' messages.
pub(super) fn inspected() -> Vec<Vec<u8>> {
    let topics = streams::topics();
    let mut records: Vec<records::Record> = Vec::new();
    for (topic, message) in sensors::messages(&pictures()) {
        let place = topics.iter().position(|(name, ..)| name == topic).expect("a known topic");
        if u16::try_from(message.len()).is_ok() {
            records.push((place as u8, 5, message));
        }
    }
    vec![records::write(&records)]
}

/// The header of inverse depth, and 2x1 pixels: a run of one zero, and a run of one pixel of 5.
pub(crate) fn rvl() -> Vec<u8> {
    let parameters = [10_100f32, 1.0].map(f32::to_le_bytes).concat();
    let size = [2u32, 1].map(u32::to_le_bytes).concat();
    [&[0; 4][..], &parameters, &size, &0x11A1_0000u32.to_le_bytes()].concat()
}

pub(super) fn depth() -> Vec<Vec<u8>> {
    let deep = fs::read(repository().join("tests/golden/compressed/deep.png")).expect("a PNG file");
    let behind_header = [&rvl()[..12], &deep].concat();
    vec![
        with_choice(0, &behind_header),
        with_choice(1, &rvl()),
        with_choice(2, &behind_header),
        with_choice(3, &rvl()),
        with_choice(5, &deep),
    ]
}

/// An image of 4x4 pixels of every encoding.
pub(super) fn raw_images() -> Vec<Vec<u8>> {
    (0..16).map(|choice| [&[choice, choice, 4, 4, 16, 0][..], &[choice; 96]].concat()).collect()
}

const OTHERS: &str = "uint8 small\nfloat64 x\nstring<=5 name\nfloat32[<=3] some";

pub(super) fn select() -> Vec<Vec<u8>> {
    let mut writer = Writer::new();
    writer.header(STAMP, "");
    writer.f64_sequence(&[1.0, 2.0]);
    writer.string_sequence(["a", "elbow"].into_iter());
    writer.f64_array(&[0.0, 0.0, 0.0]);
    let message = writer.finish();
    let definition = "std_msgs/Header header\nfloat64[] values\nstring[] names\nfloat64[3] three";
    let nested = "B[2] two\nB one\nint32 LIMIT=5\nbool[] flags";
    let seed = |definition: &str, paths: &str| {
        let text = [definition, OTHERS, paths, ""].join("\n===\n");
        [text.as_bytes(), &message].concat()
    };
    vec![
        seed(definition, "values[1]\nthree"),
        seed(definition, "values[names=\"elbow\"]\nthree[0:2]"),
        seed(nested, "two[1].x\none.some[0]"),
    ]
}

pub(super) fn definitions() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for package in ["std_msgs", "geometry_msgs", "sensor_msgs", "nav_msgs", "robot_msgs"] {
        seeds.extend(files(&format!("tests/definitions/share/{package}/msg"), &["msg"]));
    }
    seeds.push(format!("B[2] two\nB one\nint32 LIMIT=5\n\n===\n{OTHERS}").into_bytes());
    seeds.push(b"B[2] two\n===\nB one".to_vec());
    seeds
}

pub(super) fn configurations() -> Vec<Vec<u8>> {
    let reference = fs::read(repository().join("config/robocache.yaml")).expect("the reference");
    let own = fs::read(repository().join("fuzz/streams.yaml")).expect("the streams of a target");
    let bad = files("tests/configs/bad", &["yaml"]);
    bad.into_iter().chain([reference, own]).collect()
}
