//! Tests that a setting which a dataset does not know makes no difference.

use super::*;

/// The configuration that an import makes: a camera, and numbers, with these names of joints.
fn imported(joints: &str) -> String {
    format!(
        "rate_hz: 30
lag_ms: 0
streams:
  wrist:
    type: sensor_msgs/msg/Image
    topic: /observation/images/wrist
    max_age_ms: 16.666667
    dtype: u8
    image: {{resize: {{width: 96, height: 96, fit: stretch}}}}
  state:
    type: sensor_msgs/msg/JointState
    topic: /observation/state
    joints: [{joints}]
    strategy: linear
    max_age_ms: 16.666667
    max_gap_ms: 50
"
    )
}

/// The robot that serves it: it is later, its messages are others, and its ages are longer.
fn robot(joints: &str) -> String {
    imported(joints)
        .replace("lag_ms: 0", "lag_ms: 60\nbase_frame: world")
        .replace("msg/Image", "msg/CompressedImage")
        .replace("max_age_ms: 16.666667", "max_age_ms: 50\n    stamp_offset_ms: 2")
        .replace("max_gap_ms: 50", "max_gap_ms: 80")
}

#[test]
fn a_robot_can_serve_what_a_dataset_trained() {
    let trained = contract(&imported("a, b")).of_dataset();
    let served = contract(&robot("a, b"));
    assert_eq!(refusals(&trained, &served), Vec::<String>::new());
    let unknown = [
        "base_frame",
        "state.lag_ns",
        "state.inputs",
        "state.max_age_ns",
        "state.max_gap_ns",
        "wrist.lag_ns",
        "wrist.inputs",
        "wrist.max_age_ns",
    ];
    assert_eq!(keys_of(&trained, &served, DifferenceKind::Unknown), unknown);
    let all = trained.differences(&served);
    assert_eq!(all.len(), unknown.len(), "{all:?}");
    let lag = all.iter().find(|of| of.key == "state.lag_ns").unwrap();
    assert_eq!(lag.sentence, "state.lag_ns: unknown in the training, and 60 ms would be served");
    let inputs = all.iter().find(|of| of.key == "wrist.inputs").unwrap();
    assert_eq!(
        inputs.sentence,
        "wrist.inputs: unknown in the training, and sensor_msgs/msg/CompressedImage (JPEG or PNG) would be served"
    );
    assert_eq!(trained.differences(&trained), Vec::new());
    // What it knows is compared, and it is unknown to who serves rows of a dataset, too.
    assert_eq!(keys_of(&served, &trained, DifferenceKind::Unknown), unknown);
    let other = contract(&robot("b, a").replace("fit: stretch", "fit: pad_center"));
    let refused = ["state.channels", "wrist.encoder.pad_value", "wrist.encoder.resizes[0].fit"];
    assert_eq!(keys_of(&trained, &other, DifferenceKind::Values), refused);
    assert_eq!(Contract::parse(&trained.to_string()).unwrap(), trained);
}

#[test]
fn the_distances_of_steps_count_without_a_lag() {
    let steps = |ms| format!("dtype: u8\n    history: {{steps: 2, step_ms: {ms}}}");
    let trained = contract(&imported("a").replace("dtype: u8", &steps(100))).of_dataset();
    let of = |ms| contract(&robot("a").replace("dtype: u8", &steps(ms)));
    assert_eq!(refusals(&trained, &of(100)), Vec::<String>::new());
    assert_eq!(
        refusals(&trained, &of(50)),
        [
            "wrist.targets_ns: the policy was trained with [-100, 0] ms, and [-110, -60] ms would be served"
        ]
    );
}

/// Who imports with the lag of the robot, or takes windows with it, states it.
#[test]
fn a_stated_lag_is_compared() {
    let stated = contract(&imported("a").replace("lag_ms: 0", "lag_ms: 40")).of_dataset();
    let served = contract(&robot("a"));
    assert_eq!(
        keys_of(&stated, &served, DifferenceKind::Values),
        ["state.targets_ns", "wrist.targets_ns"]
    );
    let rule =
        AlignRule { strategy: Strategy::Linear, max_age_ns: 1, max_gap_ns: 2, fill: Fill::Zero };
    let windows_of = |lag_ns: i64, lag_stated| {
        let of = WindowsOf {
            name: "state",
            targets_ns: &[-lag_ns],
            lag_stated,
            present: 0,
            rule,
            dtype: DType::F32,
        };
        contract(&imported("a")).of_dataset().of_windows([of]).unwrap()
    };
    assert_eq!(refusals(&windows_of(0, false), &served), Vec::<String>::new());
    let windows = |lag_ns| windows_of(lag_ns, true);
    // A stated lag of 0 is compared as any other.
    assert_eq!(refusals(&windows(0), &served).len(), 1);
    assert_eq!(refusals(&windows(60_000_000), &served), Vec::<String>::new());
    let lag = keys_of(&windows(60_000_000), &served, DifferenceKind::Unknown);
    assert!(!lag.contains(&"state.lag_ns".to_owned()), "{lag:?}");
    assert_eq!(refusals(&windows(40_000_000), &served).len(), 1);
    // The ages of windows are those of frames, not those of a robot.
    assert_eq!(windows(0).stream("state").unwrap().get("max_age_ns"), None);
}

#[test]
fn numbers_in_place_of_names_are_unknown() {
    let numbered = contract(&imported("\"0\", \"1\"")).of_dataset();
    let served = contract(&robot("a, b"));
    assert_eq!(refusals(&numbered, &served), Vec::<String>::new());
    let unknown = keys_of(&numbered, &served, DifferenceKind::Unknown);
    assert!(unknown.contains(&"state.channels".to_owned()), "{unknown:?}");
    let count = contract(&robot("a, b, c"));
    assert_eq!(
        keys_of(&numbered, &count, DifferenceKind::Values),
        ["state.encoder.lanes", "state.shape"]
    );
}
