//! Tests of what a contract has, and what it has not.

mod accepted;
mod actions;
mod dataset;
mod files;

use std::path::Path;

use super::*;
use crate::config;
use crate::schema::Prefixes;
use crate::spec::Config;
use robocache_ops::align::{Fill, Strategy};

const REFERENCE: &str = include_str!("../../../../config/robocache.yaml");

/// A configuration, with the definitions of the tests.
fn parsed(text: &str) -> Config {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let parsed = config::parse_with(text, "test.yaml", &Prefixes::new(vec![definitions]));
    parsed.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn contract(text: &str) -> Contract {
    Contract::of(&parsed(text))
}

/// The sentences for which a policy is not served.
fn refusals(trained: &Contract, served: &Contract) -> Vec<String> {
    refused(&trained.differences(served))
}

/// The differences of a kind, by their keys.
fn keys_of(trained: &Contract, served: &Contract, kind: DifferenceKind) -> Vec<String> {
    let found = trained.differences(served).into_iter().filter(|of| of.kind == kind);
    found.map(|of| of.key).collect()
}

/// A configuration of one camera.
fn camera(filter: &str, fit: &str) -> String {
    format!(
        "rate_hz: 30\nstreams:\n  wrist:\n    type: sensor_msgs/msg/Image\n    topic: /wrist\n    \
         max_age_ms: 100\n    image: {{resize: {{width: 224, height: 224, filter: {filter}, fit: {fit}}}}}\n"
    )
}

/// huggingface/lerobot#2980: one flag of the resize differed, and a policy that succeeded in 80 to 90 % of its trials
/// nearly never did.
#[test]
fn another_resize_is_refused_in_a_sentence() {
    let trained = contract(&camera("torch_bilinear_antialias", "pad_center"));
    assert_eq!(trained.differences(&trained), Vec::new());
    let filter = refusals(&trained, &contract(&camera("torch_bilinear", "pad_center")));
    assert_eq!(
        filter,
        [
            "wrist.encoder.resizes[0].filter: the policy was trained with torch_bilinear_antialias (bilinear interpolate \
          of torch 2, with antialias), and torch_bilinear (bilinear interpolate of torch 2, without antialias) would \
          be served"
        ]
    );
    let fit = refusals(&trained, &contract(&camera("torch_bilinear_antialias", "pad_top_left")));
    assert_eq!(
        fit,
        [
            "wrist.encoder.resizes[0].fit: the policy was trained with pad_center, and pad_top_left would be served"
        ]
    );
}

#[test]
fn how_a_file_is_written_does_not_matter() {
    let text = "base_frame: base_link\noutput: {topic: /out}\nlag_ms: 0.0\nrate_hz: 30.0\n# a comment\nstreams: \
                {wrist: {topic: /other/topic, image: {resize: {height: 224, width: 224}}, \
                type: sensor_msgs/Image, max_age_ms: 1e2}}\n";
    let one = contract(text);
    let other = contract(&camera("pil_bilinear", "pad_center"));
    assert_eq!(one.to_string(), other.to_string());
    assert_eq!(one.digest(), other.digest());
    assert_eq!(one.digest().len(), 16);
}

/// Who trains with images that a store made lossy serves those of the camera.
#[test]
fn rows_that_lost_bits_are_noted_and_are_no_difference() {
    let served = contract(&camera("pil_bilinear", "pad_center"));
    let trained = served.clone().with_stored(&["wrist".to_owned()], "jpeg:95");
    assert_eq!(trained.stream("wrist").unwrap()["stored"], "jpeg:95");
    assert_ne!(trained.digest(), served.digest());
    assert_eq!(Contract::parse(&trained.to_string()).unwrap(), trained);
    let other = served.clone().with_stored(&["wrist".to_owned()], "jpeg:80");
    for (one, two) in [(&trained, &served), (&served, &trained), (&trained, &other)] {
        assert_eq!(one.differences(two), Vec::new());
    }
    let padded = contract(&camera("pil_bilinear", "stretch"));
    assert!(!trained.differences(&padded).is_empty());
    let decoded = served.clone().with_decoded(&["wrist".to_owned()], "by the tags of the video");
    assert_eq!(decoded.stream("wrist").unwrap()["decoded"], "by the tags of the video");
    assert_ne!(decoded.digest(), served.digest());
    assert_eq!(Contract::parse(&decoded.to_string()).unwrap(), decoded);
    assert_eq!(decoded.differences(&served), Vec::new());
    assert_eq!(served.differences(&decoded), Vec::new());
    // An unknown stream has no rows.
    assert_eq!(served.clone().with_stored(&["none".to_owned()], "jpeg:95"), served);
}

#[test]
fn streams_are_compared_by_their_names() {
    let two = "rate_hz: 100\nstreams:\n  a: {type: geometry_msgs/WrenchStamped, topic: /a, max_age_ms: 50}\n  b: \
               {type: geometry_msgs/WrenchStamped, topic: /b, max_age_ms: 50}\n";
    let one = "rate_hz: 100\nstreams:\n  b: {type: geometry_msgs/WrenchStamped, topic: /b, max_age_ms: 50}\n";
    let two = contract(two);
    let one = contract(one);
    assert!(one.differences(&two).is_empty(), "the policy does not look at a");
    assert_eq!(
        refusals(&two, &one),
        ["a: the policy was trained with this stream, and only b would be served"]
    );
    assert_eq!(two.only(["b"]).unwrap(), one);
    let error = one.only(["c"]).unwrap_err().to_string();
    assert_eq!(error, "contract: expected one of the streams b, found c");
    let error = one.only([]).unwrap_err().to_string();
    assert_eq!(error, "contract: expected one of the streams b, found none");
}

/// The windows of a policy have no steps ahead, or do not interpolate. What mattered only to that is no difference.
#[test]
fn windows_have_only_what_matters_to_them() {
    let arm = |more: &str| {
        contract(&format!(
            "rate_hz: 100\ntimeline: header\nstreams:\n  arm: {{type: sensor_msgs/JointState, topic: /j, max_age_ms: \
             50, joints: [a, b], {more}}}\n"
        ))
    };
    let windows = |of: &Contract, strategy, targets_ns: &[i64]| {
        let rule = AlignRule {
            strategy,
            max_age_ns: 50_000_000,
            max_gap_ns: 80_000_000,
            fill: Fill::Zero,
        };
        let name = "arm";
        let dtype = DType::F32;
        let lag_stated = false;
        of.of_windows([WindowsOf { name, targets_ns, lag_stated, present: 0, rule, dtype }])
            .unwrap()
    };
    let stored = arm("dtype: f32, max_gap_ms: 80, angular: [a], horizon: {steps: 3, step_ms: 20}");
    let linear = windows(&stored, Strategy::Linear, &[0]);
    let served = arm("dtype: f32, max_gap_ms: 80, angular: [a]");
    assert_eq!(linear.differences(&served), Vec::new());
    assert_eq!(linear.digest(), served.digest());
    let others = refusals(&linear, &arm("dtype: f32, max_gap_ms: 80"));
    assert!(others[0].starts_with("arm.encoder.lanes"), "{others:?}");
    let held = windows(&stored, Strategy::Hold, &[0]);
    assert_eq!(held.differences(&arm("dtype: f32, strategy: hold")), Vec::new());
    let ahead = windows(&stored, Strategy::Linear, &[0, 20_000_000, 40_000_000]);
    assert_eq!(ahead.differences(&stored), Vec::new());
    assert!(of_key(&ahead, "max_ahead_ns") && !of_key(&linear, "max_ahead_ns"));
}

/// True if the contract has this key for the arm.
fn of_key(contract: &Contract, key: &str) -> bool {
    contract.stream("arm").unwrap().get(key).is_some()
}

#[test]
fn sentences_name_numbers_and_lists() {
    let joints = |lag: u32, joints: &str| {
        contract(&format!(
            "rate_hz: 100\nstreams:\n  arm: {{type: sensor_msgs/JointState, topic: /j, max_age_ms: 50, lag_ms: {lag}, \
             joints: [{joints}]}}\n"
        ))
    };
    let trained = joints(20, "a, b");
    assert_eq!(
        refusals(&trained, &joints(40, "b, a")),
        [
            "arm.channels: the policy was trained with [a.position, b.position], and [b.position, a.position] would \
             be served",
            "arm.targets_ns: the policy was trained with [-20] ms, and [-40] ms would be served",
        ]
    );
    let many = |last: &str| joints(0, &format!("a, b, c, d, e, f, g, h, i, {last}"));
    assert_eq!(
        refusals(&many("j"), &many("k")),
        [
            "arm.channels: the policy was trained with j.position, and k.position would be served as entry 9"
        ]
    );
    let image = contract(&camera("nearest", "stretch").replace("wrist", "arm"));
    let found = refusals(&trained, &image);
    assert!(
        found.contains(
            &"arm.kind: the policy was trained with vector, and image would be served".to_owned()
        ),
        "{found:?}"
    );
}

#[test]
fn a_text_is_read_in_any_form() {
    let made = contract(REFERENCE);
    let read = Contract::parse(&made.to_string()).unwrap();
    assert_eq!(read, made);
    // As another program may write it.
    let spaced = serde_json::to_string_pretty(&made.value()).unwrap().replace("0.0,", "0,");
    assert_eq!(Contract::parse(&spaced).unwrap().digest(), made.digest());
    for (text, expected) in [
        ("{", "contract: expected JSON"),
        ("[]", "contract: expected a contract of format 1 to 3, found another JSON value"),
        ("{}", "contract: expected a contract of format 1 to 3, found none"),
        ("{\"format\": 4}", "contract: expected a contract of format 1 to 3, found format 4"),
        ("{\"format\": 1}", "contract: expected a contract of format 1 to 3, found no streams"),
        (
            "{\"format\": 1, \"streams\": {}}",
            "contract: expected a contract of format 1 to 3, found no streams",
        ),
        (
            "{\"format\": 1, \"streams\": {\"arm\": 1}}",
            "contract: expected a contract of format 1 to 3, found the stream arm without keys",
        ),
    ] {
        let error = Contract::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// A setting without effect makes no difference.
#[test]
fn what_has_no_effect_is_accepted() {
    let stretched = camera("nearest", "stretch");
    let with = |more: &str| contract(&stretched.replace("image: {", &format!("image: {{{more}, ")));
    assert_eq!(with("pad_value: 5").differences(&contract(&stretched)), Vec::new());
    let bytes = stretched.replace("topic", "dtype: u8\n    topic");
    assert_ne!(contract(&bytes).differences(&contract(&stretched)), Vec::new());
    // The numbers are the same, whether they are written as a range or as mean and std.
    let range = with("range: [-1, 1]");
    let normalised = with("mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]");
    assert_eq!(range.differences(&normalised), Vec::new());
}

/// A kind that no table lists is refused: nobody has said that its values do not depend on the message.
#[test]
fn another_message_type_is_transport_for_listed_kinds_alone() {
    let of = |kind: &str, ros_type: &str, codec: Option<&str>| {
        let text = contract(&camera("nearest", "stretch")).to_string();
        let mut map: Value = serde_json::from_str(&text).unwrap();
        let stream = &mut map["streams"]["wrist"];
        stream["kind"] = kind.into();
        let input = stream["inputs"][0].as_object_mut().unwrap();
        input.insert("type".into(), ros_type.into());
        input.remove("codec");
        input.extend(codec.map(|codec| ("codec".to_owned(), codec.into())));
        Contract::parse(&map.to_string()).unwrap()
    };
    let differences = |kind: &str, codecs: [Option<&str>; 2]| {
        let trained = of(kind, "sensor_msgs/msg/Image", codecs[0]);
        let served = of(kind, "sensor_msgs/msg/CompressedImage", codecs[1]);
        trained.differences(&served).into_iter().map(|of| (of.key, of.kind)).collect::<Vec<_>>()
    };
    let both =
        |kind| ["codec", "type"].map(|key| (format!("wrist.inputs[0].{key}"), kind)).to_vec();
    let lossy = Some("JPEG or PNG");
    let none = Some("none");
    for kind in ["vector", "image", "depth"] {
        // A contract that somebody wrote may have no codec.
        for trained in [None, none] {
            let found = differences(kind, [trained, lossy]);
            assert_eq!(found, both(DifferenceKind::Transport), "{kind} {trained:?}");
        }
    }
    for kind in ["voxels", "occupancy", "histogram"] {
        assert_eq!(differences(kind, [none, lossy]), both(DifferenceKind::Values), "{kind}");
    }
}
