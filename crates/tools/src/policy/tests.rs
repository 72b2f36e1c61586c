//! Checkpoints as LeRobot writes them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use robocache_core::config;

/// Two cameras and an arm, with these keys of the camera.
fn configuration(camera: &str) -> String {
    let image = |name: &str| {
        format!(
            "  {name}:\n    type: sensor_msgs/msg/Image\n    topic: /{name}\n    max_age_ms: 100\n    {camera}\n"
        )
    };
    format!(
        "rate_hz: 30\nstreams:\n{}{}  arm:\n    type: sensor_msgs/msg/JointState\n    topic: /joints\n    \
         joints: [a, b]\n    max_age_ms: 50\n  action:\n    type: sensor_msgs/msg/JointState\n    topic: \
         /command\n    joints: [a, b]\n    max_age_ms: 50\n",
        image("top"),
        image("wrist")
    )
}

fn features(size: [usize; 2]) -> Value {
    let image = json!({"type": "VISUAL", "shape": [3, size[0], size[1]]});
    json!({
        "observation.images.top": image,
        "observation.images.wrist": image,
        "observation.state": {"type": "STATE", "shape": [2]},
    })
}

/// The `config.json` of a policy; `more` replaces keys.
fn policy(kind: &str, visual: &str, more: &Value) -> Value {
    let mut all = json!({
        "type": kind,
        "n_obs_steps": 1,
        "input_features": features([480, 640]),
        "output_features": {"action": {"type": "ACTION", "shape": [2]}},
        "normalization_mapping": {"VISUAL": visual, "STATE": "MEAN_STD", "ACTION": "MEAN_STD"},
    });
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

/// The statistics as safetensors.
fn safetensors(all: &[(&str, &[f32])]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, numbers) in all {
        let begin = data.len();
        data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let offsets = json!([begin, data.len()]);
        let about = json!({"dtype": "F32", "shape": [numbers.len()], "data_offsets": offsets});
        header.insert((*name).to_owned(), about);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [(header.len() as u64).to_le_bytes().to_vec(), header, data].concat()
}

/// Writes the files of the processor, with these names for observations.
fn processor(folder: &Path, visual: &str, renames: &Value, statistics: &[(&str, &[f32])]) {
    let file = "policy_preprocessor_step_3_normalizer_processor.safetensors";
    let modes = json!({"VISUAL": visual, "STATE": "MEAN_STD", "ACTION": "MEAN_STD"});
    let all = json!({"name": "policy_preprocessor", "steps": [
        {"registry_name": "rename_observations_processor", "config": {"rename_map": renames}},
        {"registry_name": "to_batch_processor", "config": {}},
        {"registry_name": "normalizer_processor", "config": {"eps": 1e-8, "norm_map": modes}, "state_file": file},
    ]});
    fs::write(folder.join("policy_preprocessor.json"), all.to_string()).unwrap();
    fs::write(folder.join(file), safetensors(statistics)).unwrap();
}

fn found(folder: &Path, text: &str) -> Findings {
    let config = config::parse(text, "robot.yaml").unwrap_or_else(|error| panic!("{error}"));
    compare(&Checkpoint::read(folder).unwrap(), &config)
}

/// Differences for a policy that is as `policy` says.
fn differences(policy: &Value, camera: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), policy.to_string()).unwrap();
    found(folder.path(), &configuration(camera)).differences
}

const NONE: &[&str] = &[];
const BYTES: &str = "dtype: u8\n    image: {resize: {width: 640, height: 480}}";

#[test]
fn each_policy_takes_bytes_and_values_from_0_to_1() {
    let floats = "image: {resize: {width: 640, height: 480}}";
    for (kind, visual) in [
        ("act", "MEAN_STD"),
        ("diffusion", "MEAN_STD"),
        ("smolvla", "IDENTITY"),
        ("pi0", "IDENTITY"),
    ] {
        let policy = policy(kind, visual, &json!({}));
        assert_eq!(differences(&policy, BYTES), NONE, "{kind}");
        assert_eq!(differences(&policy, floats), NONE, "{kind}");
    }
}

#[test]
fn sizes_are_those_of_the_data_or_those_that_the_policy_resizes_to() {
    let small = "dtype: u8\n    image: {resize: {width: 224, height: 224}}";
    let act = differences(&policy("act", "MEAN_STD", &json!({})), small);
    assert_eq!(
        act[0],
        "observation.images.top: the policy was trained with images of 640 x 480 px, and the configuration makes \
         224 x 224 px"
    );
    for key in ["resize_imgs_with_padding", "image_resolution"] {
        let pi0 = policy("pi0", "IDENTITY", &json!({key: [224, 224]}));
        assert_eq!(differences(&pi0, small), NONE);
    }
    // The first is width, height, and the second height, width.
    let wide = "dtype: u8\n    image: {resize: {width: 320, height: 240}}";
    for (kind, key, size) in [
        ("smolvla", "resize_imgs_with_padding", [320, 240]),
        ("pi0", "resize_imgs_with_padding", [320, 240]),
        ("pi0", "image_resolution", [240, 320]),
    ] {
        let same = policy(kind, "IDENTITY", &json!({key: size}));
        assert_eq!(differences(&same, wide), NONE, "{kind}: {key}");
        let turned = policy(kind, "IDENTITY", &json!({key: [size[1], size[0]]}));
        let found = &differences(&turned, wide)[0];
        assert!(found.contains(&format!("(or 240 x 320, its {key})")), "{found}");
    }
    let smolvla = policy("smolvla", "IDENTITY", &json!({"resize_imgs_with_padding": [512, 512]}));
    assert!(
        differences(&smolvla, small)[0]
            .contains("640 x 480 px (or 512 x 512, its resize_imgs_with_padding)")
    );
}

#[test]
fn names_lengths_and_channels_are_compared() {
    let mut inputs = features([480, 640]);
    inputs["observation.images.left"] = inputs["observation.images.top"].clone();
    inputs["observation.images.empty_camera_0"] = inputs["observation.images.top"].clone();
    inputs["observation.image"] = inputs["observation.images.top"].clone();
    inputs["observation.state"]["shape"] = json!([14]);
    inputs["observation.environment_state"] = json!({"type": "ENV", "shape": [4]});
    let more = json!({
        "input_features": inputs,
        "output_features": {"action": {"type": "ACTION", "shape": [7]}},
    });
    let policy = policy("act", "MEAN_STD", &more);
    let gray = "dtype: u8\n    image: {resize: {width: 640, height: 480}, color: mono}";
    assert_eq!(
        differences(&policy, gray),
        [
            "observation.environment_state: the policy takes this vector, and no vector is called environment_state",
            "observation.image: the policy takes this image, and no stream has a column of this name; rename it with \
             a rename_map of the processor",
            "observation.images.left: the policy takes this image, and no stream is called left; the images are top, \
             wrist",
            "observation.images.top: the policy takes 3 channels, and the configuration makes 1",
            "observation.images.wrist: the policy takes 3 channels, and the configuration makes 1",
            "observation.state: the policy takes 14 numbers, and the configuration makes 2: 2 arm",
            "action: the policy gives 7 numbers, and the configuration makes 2",
        ]
    );
}

#[test]
fn steps_are_one_or_those_of_the_policy() {
    let diffusion = policy("diffusion", "MEAN_STD", &json!({"n_obs_steps": 2}));
    let with = |steps: usize| format!("history: {{steps: {steps}, step_ms: 33}}\n    {BYTES}");
    assert_eq!(differences(&diffusion, &with(2)), NONE);
    assert_eq!(
        differences(&diffusion, &with(3))[0],
        "observation.images.top: the policy takes 2 step(s) of an observation, and the stream top has 3"
    );
}

#[test]
fn normalisation_is_that_of_the_policy_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let act = policy("act", "MEAN_STD", &json!({}));
    fs::write(folder.path().join("config.json"), act.to_string()).unwrap();
    let [mean, std] = [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]];
    let camera = "image: {preset: act}";
    // Without the numbers nobody knows.
    let without = found(folder.path(), &configuration(camera));
    assert_eq!(without.differences, NONE);
    assert!(without.unknown.iter().any(|it| it.starts_with(
        "observation.images.top: by which numbers the policy normalises it (MEAN_STD); the configuration uses mean \
         and std [0.485, 0.456, 0.406] and [0.229, 0.224, 0.225]"
    )));
    let renames = json!({"observation.images.top": "observation.images.camera1"});
    let statistics: Vec<(&str, &[f32])> = vec![
        ("observation.images.top.mean", &mean),
        ("observation.images.top.std", &std),
        ("observation.images.wrist.mean", &std),
        ("observation.images.wrist.std", &std),
    ];
    processor(folder.path(), "MEAN_STD", &json!({}), &statistics);
    let with = found(folder.path(), &configuration(camera));
    assert_eq!(
        with.differences,
        [
            "observation.images.wrist: the policy was trained with mean and std [0.229, 0.224, 0.225] and [0.229, \
          0.224, 0.225], and the configuration uses [0.485, 0.456, 0.406] and [0.229, 0.224, 0.225]"
        ]
    );
    assert!(with.unknown.iter().any(|it| it.starts_with(
        "observation.images.top: whether the program of the policy normalises it again"
    )));
    // The keys are those before the processor renames them.
    let mut renamed = act;
    let inputs = renamed["input_features"].as_object_mut().unwrap();
    let top = inputs.remove("observation.images.top").unwrap();
    inputs.insert("observation.images.camera1".into(), top);
    fs::write(folder.path().join("config.json"), renamed.to_string()).unwrap();
    processor(folder.path(), "MEAN_STD", &renames, &[]);
    assert_eq!(found(folder.path(), &configuration(BYTES)).differences, NONE);
}

#[test]
fn a_policy_that_scales_images_itself_takes_values_from_0_to_1() {
    let pi0 = policy("pi0", "IDENTITY", &json!({"image_resolution": [224, 224]}));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), pi0.to_string()).unwrap();
    let inside = found(folder.path(), &configuration("image: {preset: pi0_lerobot}"));
    assert_eq!(inside.differences, NONE);
    assert!(
        inside
            .unknown
            .iter()
            .any(|it| it.contains("the configuration does what the policy itself does"))
    );
    let other = "image: {resize: {width: 224, height: 224}, mean: [0.4, 0.4, 0.4], std: [1, 1, 1]}";
    assert!(found(folder.path(), &configuration(other)).differences[0].contains(
        "the policy was trained with mean and std [0.5, 0.5, 0.5] and [0.5, 0.5, 0.5], and the configuration uses"
    ));
    let hwc = "image: {resize: {width: 224, height: 224}, layout: hwc}";
    assert!(found(folder.path(), &configuration(hwc)).differences[0].contains("layout hwc"));
}

#[test]
fn operators_may_be_the_normalisation() {
    let folder = tempfile::tempdir().unwrap();
    let act = policy("act", "MEAN_STD", &json!({}));
    fs::write(folder.path().join("config.json"), act.to_string()).unwrap();
    processor(
        folder.path(),
        "MEAN_STD",
        &json!({}),
        &[("observation.state.mean", &[1.0, 2.0]), ("observation.state.std", &[0.5, 0.25])],
    );
    let with = |std: &str| {
        let operators = format!(
            "joints: [a, b]\n    operators: [normalize: {{mode: mean_std, eps: 0, mean: [1, 2], std: {std}}}]"
        );
        let text = configuration(BYTES).replacen("joints: [a, b]", &operators, 1);
        found(folder.path(), &text).unknown
    };
    let says = |unknown: Vec<String>, words: &str| {
        unknown.iter().any(|it| it.starts_with("observation.state: ") && it.contains(words))
    };
    assert!(says(with("[0.5, 0.25]"), "the configuration does what its normalisation does"));
    assert!(says(with("[0.5, 0.5]"), "whether the data of the training had the operators"));
}

#[test]
fn what_the_files_do_not_say_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = policy("groot", "MEAN_STD", &json!({"crop_shape": [84, 84]}));
    other["normalization_mapping"] = json!({"STATE": "MIN_MAX"});
    let below = folder.path().join("pretrained_model");
    fs::create_dir(&below).unwrap();
    fs::write(below.join("config.json"), other.to_string()).unwrap();
    let found = found(folder.path(), &configuration(BYTES));
    assert_eq!((found.policy.as_str(), found.differences.len()), ("groot", 0));
    assert_eq!(
        found.unknown,
        [
            "type: no test knows a policy of type groot; keys of its own are not compared",
            "observation.images.top: the layout of the bytes that the program of the policy takes; the configuration \
             has chw",
            "observation.images.wrist: the layout of the bytes that the program of the policy takes; the \
             configuration has chw",
            "the rate of the frames in the training; the configuration has 30 Hz",
            "the lag of each input, and its greatest age",
            "the names, the order and the units of the numbers of vectors",
            "the filter, the fit and the codec of the images in the training",
            "whether images were cropped before; the policy itself cuts out 84 x 84 px",
            "observation.images.top: how the policy normalises it",
            "observation.images.wrist: how the policy normalises it",
            "the numbers of the normalisation: there is no policy_preprocessor.json",
        ]
    );
}

#[test]
fn a_folder_without_a_checkpoint_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = |folder: &Path| Checkpoint::read(folder).unwrap_err().to_string();
    let none = "expected a checkpoint of LeRobot, a folder with config.json or pretrained_model/config.json";
    assert!(error(folder.path()).ends_with(&format!("{none}, found none")));
    assert!(error(&folder.path().join("x")).ends_with(&format!("{none}, found no such folder")));
    for (text, expected) in [
        ("{", "expected JSON"),
        ("{}", "expected a type, found null"),
        ("{\"type\": \"act\"}", "expected input_features, found null"),
    ] {
        fs::write(folder.path().join("config.json"), text).unwrap();
        assert!(error(folder.path()).contains(expected), "{}", error(folder.path()));
    }
    fs::write(folder.path().join("config.json"), policy("act", "IDENTITY", &json!({})).to_string())
        .unwrap();
    processor(folder.path(), "IDENTITY", &json!({}), &[]);
    let state = folder.path().join("policy_preprocessor_step_3_normalizer_processor.safetensors");
    for bytes in [&b"short"[..], &[0xff; 16], &[4, 0, 0, 0, 0, 0, 0, 0, b'{', b'}', b' ', b'x']] {
        fs::write(&state, bytes).unwrap();
        assert!(error(folder.path()).contains("expected a file of safetensors"), "{bytes:?}");
    }
}

#[test]
fn statistics_elsewhere_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(folder.path().join("statistics"), safetensors(&[])).unwrap();
    fs::write(own.join("config.json"), policy("act", "IDENTITY", &json!({})).to_string()).unwrap();
    let absolute = folder.path().join("statistics").display().to_string();
    for file in ["../statistics", &absolute, "a/../../statistics", ".", ""] {
        let step = json!({"registry_name": "normalizer_processor", "state_file": file});
        let text = json!({"steps": [step]}).to_string();
        fs::write(own.join("policy_preprocessor.json"), text).unwrap();
        let error = Checkpoint::read(&own).unwrap_err().to_string();
        assert!(error.contains("expected a file of this folder"), "{error}");
    }
}
