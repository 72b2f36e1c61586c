//! Tests of a policy's answers, in its contract.

use super::*;
use crate::contract::{ActionWindows, Poses};
use crate::spec::Interface;
use robocache_ops::operators::Operator;

const MS: i64 = 1_000_000;
static NO_POSES: Poses = Poses { poses: Vec::new(), rotation_6d: None, outputs: Vec::new() };

/// Rows of measured and of commanded joints, with these keys in the measured ones and in the commanded ones.
fn rows(joints: &str, action: &str) -> Contract {
    let stream = |name: &str, more: &str| {
        format!(
            "  {name}: {{type: sensor_msgs/JointState, topic: /{name}, max_age_ms: 50, joints: [a, b]{more}}}\n"
        )
    };
    let text =
        format!("rate_hz: 50\nstreams:\n{}{}", stream("joints", joints), stream("action", action));
    contract(&text)
}

fn windows(offsets_ns: &[i64]) -> ActionWindows<'_> {
    ActionWindows {
        name: "action",
        offsets_ns,
        lag_known: true,
        relative: &[],
        reference: None,
        operators: &[],
        poses: &NO_POSES,
    }
}

/// The contract of a policy that sees the joints, and answers these windows.
fn policy(store: &Contract, windows: ActionWindows<'_>) -> Result<Contract, ContractError> {
    store.only(["joints"]).unwrap().with_actions(store, [windows])
}

fn refusal(store: &Contract, windows: ActionWindows<'_>) -> String {
    policy(store, windows).unwrap_err().to_string()
}

/// A configuration that makes commands of 3 rows, with these keys of its group.
fn node(group: &str) -> Contract {
    let text = format!(
        "rate_hz: 50
streams:
  joints: {{type: sensor_msgs/JointState, topic: /joints, max_age_ms: 50, joints: [a, b, c, d]}}
commands:
  rate_hz: 250
  groups:
    arm:
      start_from: joints
      watchdog_ms: 300
      limits: none
      on_stall: hold
      on_end: hold
      output: {{topic: /c, type: sensor_msgs/JointState}}
      {group}
"
    );
    Contract::of_node(&parsed(&text))
}

#[test]
fn windows_of_actions_are_in_the_contract_and_are_no_stream() {
    let operators = ", angular: [b], operators: [{offset: -1, of: [a]}, {rad2deg: true, of: [b]}]";
    let store = rows("", operators);
    let relative = ["b".to_owned()];
    let windows =
        ActionWindows { relative: &relative, reference: Some("joints"), ..windows(&[0, 20 * MS]) };
    let made = policy(&store, windows).unwrap();
    assert_eq!(made.streams().collect::<Vec<_>>(), ["joints"]);
    let degrees = 180.0 / std::f64::consts::PI;
    let expected = json!({"action": {
        "names": ["a.position", "b.position"],
        "units": ["", "deg"],
        "offsets_ns": [0, 20 * MS],
        "operators": [
            [{"affine": {"shift": 0, "scale": 1, "offset": -1}}],
            [{"affine": {"shift": 0, "scale": degrees, "offset": 0}}],
        ],
        "relative": ["b.position"],
        "reference": "joints",
    }});
    assert_eq!(made.value()["actions"], expected);
    assert_eq!(made.value()["format"], 3);
    assert_eq!(Contract::parse(&made.to_string()).unwrap(), made);
    let [actions] = &made.actions().unwrap()[..] else { panic!("one stream") };
    assert_eq!((actions.offsets_ns.len(), &actions.relative[..]), (2, &[false, true][..]));
    let joints = ["a", "b"].map(str::to_owned).to_vec();
    assert_eq!(actions.joints(), Ok((joints, Interface::Position)));
    let plain = policy(&rows("", ""), self::windows(&[5 * MS])).unwrap();
    let expected = json!({"names": ["a.position", "b.position"], "offsets_ns": [5 * MS]});
    assert_eq!(plain.value()["actions"]["action"], expected);
    assert!(store.only(["joints"]).unwrap().actions().unwrap().is_empty());
}

#[test]
fn offsets_are_even_to_a_nanosecond() {
    let store = rows("", "");
    let even = |offsets: &[i64]| policy(&store, windows(offsets)).is_ok();
    let thirty: Vec<i64> = (0..100).map(|row| (row as f64 * 1e9 / 30.0).round() as i64).collect();
    let frames: Vec<i64> = (-1..99).map(|row| row * 33_333_333).collect();
    assert!(even(&thirty) && even(&frames) && even(&[-7]));
    let mut shifted = thirty;
    shifted[50] += 3;
    assert!(!even(&shifted));
    assert_eq!(
        refusal(&store, windows(&[0, 20 * MS, 50 * MS])),
        "actions.action: expected rows at round(k * step), such as of {\"horizon\": {\"steps\": 50, \"step_ms\": 20}}, \
         found row 2 at 50000000 ns after 20000000 ns"
    );
    assert!(!even(&[0, 0]) && !even(&[0, -MS]) && !even(&[]) && !even(&[i64::MIN, i64::MAX]));
}

#[test]
fn windows_that_no_command_can_follow_are_errors() {
    let store = rows("", "");
    let lagging = ActionWindows { lag_known: false, ..windows(&[0, MS]) };
    assert!(refusal(&store, lagging).contains("found windows with the lag of the configuration"));
    let unknown = ["c".to_owned()];
    let of = ActionWindows { relative: &unknown, reference: Some("joints"), ..windows(&[0, MS]) };
    let expected = "actions.action: expected relative channels of a.position, b.position, found c";
    assert_eq!(refusal(&store, of), expected);
    let relative = ["a".to_owned()];
    let alone = ActionWindows { relative: &relative, ..windows(&[0, MS]) };
    assert!(refusal(&store, alone).contains("found one without the other"));
    let of = ActionWindows { reference: Some("joints"), ..alone };
    assert!(policy(&store, of).is_ok());
    for (joints, action, found) in [
        ("", ", operators: [{offset: 1}]", "a scale alone, found a.position"),
        ("", ", operators: [{clamp: [-1, 1]}]", "a scale alone, found a.position"),
        (
            ", dtype: f16",
            "",
            "a stream of dtype f32: rows are added to its values, found joints of f16",
        ),
        (", operators: [{clamp: [-1, 1], of: [a]}]", "", "no clamp, no rotation_6d"),
    ] {
        let sentence = refusal(&rows(joints, action), of);
        assert!(sentence.contains(found), "{sentence}");
    }
    // The limit of another joint limits nothing.
    assert!(policy(&rows(", operators: [{clamp: [-1, 1], of: [b]}]", ""), of).is_ok());
    let other = ActionWindows { reference: Some("none"), ..of };
    assert!(refusal(&store, other).contains("found none"));
    let missing = ActionWindows { name: "none", ..windows(&[0, MS]) };
    assert!(refusal(&store, missing).contains("expected one of the streams action, joints"));
    let numbered = rows("", "").of_dataset();
    assert!(policy(&numbered, windows(&[0, MS])).is_ok(), "its joints have names");
    let text = rows("", "").to_string().replace("\"a.", "\"0.").replace("\"b.", "\"1.");
    let numbered = Contract::parse(&text).unwrap().of_dataset();
    assert!(refusal(&numbered, windows(&[0, MS])).contains("found a dataset without names"));
}

#[test]
fn a_reference_is_the_value_before_the_operators() {
    let normalize =
        ", operators: [{normalize: {mode: mean_std, mean: [1, 2], std: [0.5, 4]}}, {scale: 2}]";
    let store = rows(normalize, "");
    let relative = ["b".to_owned()];
    let of = ActionWindows { relative: &relative, reference: Some("joints"), ..windows(&[0, MS]) };
    let made = policy(&store, of).unwrap();
    let actions = made.actions().unwrap().remove(0);
    let reference = made.reference(&actions).unwrap().unwrap();
    assert_eq!((reference.stream.as_str(), reference.shape), ("joints", [1, 2]));
    // (4 - 2) / 4 * 2 is 1. A joint that is not relative has none.
    assert_eq!(reference.values(&[9.0, 1.0]), [0.0, 4.0]);
    assert!(reference.values(&[]).iter().any(|value| value.is_nan()), "a short step is no value");
    let other = normalize.replace("scale: 2", "scale: 3");
    let served = rows(&other, "").only(["joints"]).unwrap();
    let keys = keys_of(&made, &served, DifferenceKind::Values);
    assert!(keys[0].starts_with("joints.encoder.outputs[0]"), "{keys:?}");
    let accepted = made.accepting(&served, &keys).unwrap();
    let error = accepted.reference(&actions).unwrap_err().to_string();
    assert!(error.contains("expected a stream that is served as in the training"), "{error}");
}

#[test]
fn operators_of_windows_come_behind_those_of_the_channels() {
    let store = rows("", ", operators: [{scale: 2, of: [b]}]");
    let relative = ["a".to_owned(), "b".to_owned()];
    let normalize = Operator::Affine { shift: 0.5, scale: 4.0, offset: -1.0 };
    let operators = [vec![normalize], vec![normalize]];
    let of = ActionWindows {
        relative: &relative,
        reference: Some("joints"),
        operators: &operators,
        ..windows(&[0, MS])
    };
    let made = policy(&store, of).unwrap().actions().unwrap().remove(0);
    let scale = Operator::Affine { shift: 0.0, scale: 2.0, offset: 0.0 };
    assert_eq!(made.operators, [vec![normalize], vec![scale, normalize]]);
    let one = &operators[..1];
    let few = refusal(&store, ActionWindows { operators: one, ..windows(&[0, MS]) });
    assert!(few.contains("expected operators for each number of a row"), "{few}");
}

#[test]
fn no_command_follows_from_poses() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let poses = Poses {
        poses: vec![names(&["a.position", "b.position"])],
        rotation_6d: Some("rows".to_owned()),
        outputs: names(&["x", "y", "r00"]),
    };
    let operators = vec![vec![Operator::Affine { shift: 0.0, scale: 2.0, offset: 0.0 }]; 3];
    let of = ActionWindows { poses: &poses, operators: &operators, ..windows(&[0, MS]) };
    let made = policy(&rows("", ""), of).unwrap();
    let entry = &made.value()["actions"]["action"];
    assert_eq!(entry["poses"], json!([["a.position", "b.position"]]));
    assert_eq!(
        (&entry["rotation_6d"], &entry["outputs"]),
        (&json!("rows"), &json!(["x", "y", "r00"]))
    );
    let actions = made.actions().unwrap().remove(0);
    assert_eq!((&actions.poses, actions.operators), (&poses, operators));
    let why = made.actions_of_joints(None, None).unwrap_err();
    assert!(
        why.contains("expected channels JOINT.position or JOINT.velocity")
            && why.ends_with("found poses")
    );
    let scaled = rows("", ", operators: [{scale: 2, of: [b]}]");
    let of = ActionWindows { poses: &poses, ..windows(&[0, MS]) };
    assert!(refusal(&scaled, of).ends_with("found poses of channels with operators"));
}

#[test]
fn commands_are_compared_with_the_actions_of_a_policy() {
    let store = rows("", ", operators: [{scale: 2, of: [a]}]");
    let relative = ["a".to_owned()];
    let of = ActionWindows {
        relative: &relative,
        reference: Some("joints"),
        ..windows(&[0, 20 * MS, 40 * MS])
    };
    let made = policy(&store, of).unwrap().value()["actions"].clone();
    let with = |actions: &Value| {
        let mut value = node("joints: [c]\n      rows: {steps: 3, step_ms: 20}").value();
        value["actions"] = actions.clone();
        Contract::from_value(value, "test").unwrap()
    };
    let trained = with(&made);
    let same = "joints: [a, b]\n      rows: {steps: 3, step_ms: 20}\n      operators: [{scale: 2, of: [a]}]\n      relative: [a]";
    assert_eq!(trained.differences(&node(same)), Vec::new());
    let sentence = |from: &str, to: &str| {
        let found = refusals(&trained, &node(&same.replacen(from, to, 1)));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    };
    assert_eq!(
        sentence("step_ms: 20", "step_ms: 20, lag_ms: 5"),
        "actions.action.offsets_ns: the policy was trained with [0, 20, 40] ms, and [-5, 15, 35] ms would be served"
    );
    assert!(sentence("steps: 3", "steps: 4").starts_with("actions.action.offsets_ns:"));
    assert_eq!(
        sentence("scale: 2", "scale: 3"),
        "actions.action.operators[0][0].affine.scale: the policy was trained with 2, and 3 would be served"
    );
    assert!(sentence("relative: [a]", "relative: [b]").starts_with("actions.action.relative:"));
    let names = sentence("[a, b]", "[b, a]");
    assert!(names.starts_with("actions.action.names: the policy was trained with [a.position"));
    // Velocities are no positions, though the joints have the same names.
    let with_actions = |change: &dyn Fn(&mut Value)| {
        let mut value = node(same).value();
        change(&mut value["actions"]["arm"]);
        Contract::from_value(value, "test").unwrap()
    };
    let velocities = json!(["a.velocity", "b.velocity"]);
    let moving = with_actions(&|arm| arm["names"] = velocities.clone());
    assert_eq!(
        refusals(&trained, &moving),
        [
            "actions.action.names: the policy was trained with [a.position, b.position], and [a.velocity, b.velocity] would \
          be served"
        ]
    );
    let names = trained.accepting(&moving, &["actions.action.names".to_owned()]).unwrap_err();
    assert!(names.to_string().ends_with("found actions.action.names, which cannot be accepted"));
    let other = with_actions(&|arm| arm["reference"] = json!("other"));
    assert_eq!(
        refusals(&trained, &other),
        ["actions.action.reference: the policy was trained with joints, and other would be served"]
    );
    // Another policy moves other joints, and a node without commands moves none.
    assert_eq!(
        trained.differences(&node(&same.replace("[a, b]", "[c, d]").replace("[a]", "[c]"))),
        Vec::new()
    );
    assert_eq!(trained.differences(&with(&Value::Null)), Vec::new());
    let lagging = node(&same.replace("step_ms: 20", "step_ms: 20, lag_ms: 5"));
    let accepted = trained.accepting(&lagging, &["actions.action.offsets_ns".to_owned()]).unwrap();
    assert_eq!(refusals(&accepted, &lagging), Vec::<String>::new());
    assert!(
        !refusals(
            &accepted,
            &node(&same.replace("lag_ms: 5", "lag_ms: 6").replace("step_ms: 20", "step_ms: 21"))
        )
        .is_empty()
    );
}

#[test]
fn the_actions_of_joints_are_found_by_their_order_and_quantity() {
    let contract = |actions: Value| {
        let mut value = rows("", "").value();
        value["actions"] = actions;
        Contract::from_value(value, "test").unwrap()
    };
    let of = |names: Value| json!({"names": names, "offsets_ns": [0, 1]});
    let [position, velocity] = [Interface::Position, Interface::Velocity].map(Some);
    let [ab, swapped] = [["a", "b"], ["b", "a"]].map(|of| of.map(str::to_owned).to_vec());
    let one = contract(json!({"action": of(json!(["/l:a.position", "b.position"]))}));
    let found = |of: &Contract, joints, interface| {
        of.actions_of_joints(joints, interface).map(|(joints, actions)| (joints, actions.stream))
    };
    let expected = Ok((ab.clone(), "action".to_owned()));
    for (joints, interface) in [(None, None), (Some(&ab[..]), None), (Some(&ab[..]), position)] {
        assert_eq!(found(&one, joints, interface), expected);
    }
    let known = "the contract has `action` with /l:a.position, b.position";
    assert_eq!(found(&one, Some(&swapped), None), Err(format!("{known}, and not b, a")));
    let moving = Err(format!("{known}, and not a.velocity, b.velocity"));
    assert_eq!(found(&one, Some(&ab), velocity), moving);
    let position = of(json!(["a.position", "b.position"]));
    let both = contract(json!({"p": position, "v": of(json!(["a.velocity", "b.velocity"]))}));
    assert_eq!(found(&both, Some(&ab), velocity), Ok((ab.clone(), "v".to_owned())));
    let several = found(&both, Some(&ab), None).unwrap_err();
    assert!(several.ends_with("and a, b more than once"), "{several}");
    assert!(found(&both, None, None).unwrap_err().ends_with(": name the joints"));
    let none = found(&contract(Value::Null), None, None).unwrap_err();
    assert!(none.starts_with("the contract has no actions"), "{none}");
}

#[test]
fn actions_of_other_files_are_read_or_refused() {
    let with = |actions: Value| {
        let mut value = rows("", "").value();
        value["actions"] = actions;
        Contract::from_value(value, "test").unwrap().actions()
    };
    assert!(with(Value::Null).unwrap().is_empty());
    let lag = with(json!({"action": {"lag_ns": 0}})).unwrap_err().to_string();
    assert!(lag.starts_with("actions.action: expected the names and even offsets_ns"), "{lag}");
    let entry = |change: fn(&mut Value)| {
        let mut entry = json!({"names": ["a.position"], "offsets_ns": [0, 1]});
        change(&mut entry);
        with(json!({"action": entry}))
    };
    assert!(entry(|_| {}).is_ok());
    let wrong: [fn(&mut Value); 6] = [
        |of| of["offsets_ns"] = json!([0, 5, 6]),
        |of| of["relative"] = json!(["a.position"]),
        |of| of["relative"] = json!(["b.position"]),
        |of| of["reference"] = json!("joints"),
        |of| of["operators"] = json!([[], []]),
        |of| of["operators"] = json!([[{"affine": {"shift": 0, "scale": 0, "offset": 0}}]]),
    ];
    for change in wrong {
        assert!(entry(change).is_err());
    }
    for (names, found) in [
        (json!(["a.position", "b.velocity"]), "b.velocity"),
        (json!(["/l:a.position", "/r:a.position"]), "/r:a.position"),
        (json!(["a.effort"]), "a.effort"),
        (json!(["data[0]"]), "data[0]"),
        (json!([]), "none"),
    ] {
        let actions = with(json!({"action": {"names": names, "offsets_ns": [0, 1]}})).unwrap();
        let error = actions[0].joints().unwrap_err();
        assert!(error.ends_with(&format!("found {found}")), "{error}");
    }
    let labelled = json!({"action": {"names": ["/l:a.velocity"], "offsets_ns": [0, 1]}});
    let joints = with(labelled).unwrap()[0].joints();
    assert_eq!(joints, Ok((vec!["a".to_owned()], Interface::Velocity)));
}
