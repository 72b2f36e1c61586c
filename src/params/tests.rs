use super::*;

fn from(given: &[(&str, ParameterValue)]) -> Result<Settings, NodeError> {
    let mut declared = declared();
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
    override_declared(&mut declared, given.iter().map(|(n, v)| (n, v)))?;
    settings(&declared)
}

fn error(given: &[(&str, ParameterValue)]) -> String {
    from(given).unwrap_err().to_string()
}

fn text(value: &str) -> ParameterValue {
    ParameterValue::String(value.to_owned())
}

fn integers(values: &[i64]) -> ParameterValue {
    ParameterValue::IntegerArray(values.to_vec())
}

#[test]
fn given_values_replace_defaults() {
    let config = ("config_file", text("robot.yaml"));
    let defaults = from(std::slice::from_ref(&config)).unwrap();
    assert_eq!(defaults.backend, Choice::Auto);
    assert_eq!((defaults.rate_hz, defaults.use_sim_time), (None, false));
    let tick = Placement { priority: 20, cpus: vec![] };
    let command = Placement { priority: 21, cpus: vec![] };
    assert_eq!(defaults.threads, ThreadOptions { tick, command, ..ThreadOptions::default() });
    assert_eq!(defaults.commands, CommandsAtStart::Disabled);
    assert!(defaults.digest);
    let given = from(&[
        config,
        ("rate_hz", ParameterValue::Integer(50)),
        ("use_sim_time", ParameterValue::Bool(true)),
        ("device", ParameterValue::Integer(1)),
        ("realtime_priority", ParameterValue::Integer(0)),
        ("intake_priority", ParameterValue::Integer(7)),
        ("encode_threads", ParameterValue::Integer(3)),
        ("tick_cpus", integers(&[1])),
        ("publish_cpus", integers(&[2])),
        ("intake_cpus", integers(&[3, 4])),
        ("encode_cpus", integers(&[5])),
        ("commands", text("enabled")),
        ("command_priority", ParameterValue::Integer(30)),
        ("command_cpus", integers(&[6])),
        ("lock_memory", ParameterValue::Bool(true)),
        ("digest", ParameterValue::Bool(false)),
        ("visualize_hz", ParameterValue::Integer(4)),
        ("record_to", text("/data/runs")),
        ("shared_output", text("robot/tensors")),
        ("contract", text("/policies/reach")),
        ("output_type", text("isaac_tensor_list")),
    ]);
    let given = given.unwrap();
    assert_eq!((given.rate_hz, given.use_sim_time, given.device), (Some(50.0), true, 1));
    let placement = |priority, cpus: &[usize]| Placement { priority, cpus: cpus.to_vec() };
    let threads = ThreadOptions {
        command: placement(30, &[6]),
        tick: placement(0, &[1]),
        publish_cpus: vec![2],
        encode: placement(0, &[5]),
        encode_threads: Some(3),
    };
    assert_eq!(given.commands, CommandsAtStart::Enabled);
    assert_eq!((given.threads, given.intake), (threads, placement(7, &[3, 4])));
    assert!(given.lock_memory);
    assert!(!given.digest);
    assert_eq!(given.visualize_period, Some(Duration::from_millis(250)));
    assert_eq!(defaults.visualize_period, None);
    assert_eq!(
        (given.shared_output.as_deref(), defaults.shared_output),
        (Some("robot/tensors"), None)
    );
    let types = (given.output_type, defaults.output_type);
    assert_eq!(types, (OutputType::IsaacTensorList, OutputType::FusedTensor));
    assert_eq!((given.contract, defaults.contract), (Some("/policies/reach".into()), None));
    assert_eq!((given.record_to, defaults.record_to), (Some("/data/runs".into()), None));
}

#[test]
fn a_node_is_managed_if_it_is_asked_to_be() {
    let mut declared = declared();
    assert!(!is_managed(&declared));
    let given = (MANAGED.to_owned(), ParameterValue::Bool(true));
    override_declared(&mut declared, [(&given.0, &given.1)]).unwrap();
    assert!(is_managed(&declared) && settings(&declared).is_ok());
}

#[test]
fn parameters_of_other_nodes_are_ignored() {
    let mut declared = declared();
    let names = ["robot_description", "joints", "qos_overrides./clock.subscription.depth"];
    let given = names.map(|name| (name.to_owned(), text("")));
    let given = given.iter().map(|(name, value)| (name, value));
    let unknown = override_declared(&mut declared, given).unwrap();
    assert_eq!(unknown, ["joints", "qos_overrides./clock.subscription.depth", names[0]]);
    assert_eq!(declared, super::declared());
}

#[test]
fn an_error_names_the_parameter_and_what_was_expected_and_found() {
    let file = ("config_file", text("robot.yaml"));
    let missing = from(&[]).unwrap().load().unwrap_err().to_string();
    assert!(missing.starts_with("parameter config_file: expected the path"), "{missing}");
    for (name, near) in
        [("rate", "rate_hz"), ("rate_hx", "rate_hz"), ("use_sim_tme", "use_sim_time")]
    {
        let message = error(&[file.clone(), (name, ParameterValue::Integer(5))]);
        let expected = format!("parameter {name}: no such name, did you mean {near}?");
        assert_eq!(message, expected);
    }
    let cases = [
        (("rate_hz", text("fast")), "expected a double, found a string"),
        (("rate_hz", ParameterValue::Double(-1.0)), "from 0.1 to 2000, or 0, found -1"),
        (("visualize_hz", ParameterValue::Double(61.0)), "from 0.1 to 60, or 0, found 61"),
        (("rate_hz", ParameterValue::Double(f64::NAN)), "found NaN"),
        (("device", ParameterValue::Double(1.0)), "expected an integer, found a double"),
        (("device", ParameterValue::Integer(-1)), "0 or more, found -1"),
        (("use_sim_time", ParameterValue::Integer(1)), "expected a boolean, found an integer"),
        (("realtime_priority", ParameterValue::Integer(100)), "from 0 to 99, found 100"),
        (("intake_priority", ParameterValue::Integer(-1)), "from 0 to 99, found -1"),
        (("encode_threads", ParameterValue::Integer(65)), "from 0 to 64, found 65"),
        (("tick_cpus", integers(&[2, -1])), "from 0 to 1023, found [2, -1]"),
        (("encode_cpus", ParameterValue::Integer(2)), "an integer array, found an integer"),
        (("backend", text("gpu")), "expected auto, cpu or cuda, found 'gpu'"),
        (("diagnostics_period_s", ParameterValue::Integer(0)), "0.1 to 3600, found 0"),
    ];
    for (parameter, expected) in cases {
        let name = parameter.0;
        let message = error(&[file.clone(), parameter]);
        assert!(message.starts_with(&format!("parameter {name}: ")), "{message}");
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn limits_of_a_recording_are_for_whole_runs() {
    let config = ("config_file", text("robot.yaml"));
    let double = ParameterValue::Double;
    let given = from(&[
        config.clone(),
        ("record_to", text("/data")),
        ("record_max_gb", double(1.5)),
        ("record_max_age_s", ParameterValue::Integer(60)),
        ("record_compression", text("zstd")),
        ("record_streams", ParameterValue::StringArray(vec!["joints".to_owned()])),
    ])
    .unwrap();
    let limits = RecordLimits { bytes: Some(1_500_000_000), age: Some(Duration::from_secs(60)) };
    assert_eq!((given.record_limits, given.record_compression), (limits, ChunkCompression::Zstd));
    assert_eq!(given.record_streams, ["joints"]);
    let episodes = |limit| error(&[config.clone(), ("episodes_to", text("/data")), limit]);
    for limit in [("record_max_gb", double(5.0)), ("record_max_age_s", double(60.0))] {
        assert!(episodes(limit).contains("no episode is ever deleted"));
    }
    for (name, value) in [
        ("record_max_gb", double(0.5)),
        ("record_max_gb", double(-1.0)),
        ("record_max_age_s", double(f64::NAN)),
        ("record_compression", text("lz4")),
    ] {
        assert!(error(&[config.clone(), (name, value)]).contains(name));
    }
}
