//! Tests of the node's files in a recording.

use robocache_core::schema::Prefixes;
use robocache_core::spec::JointLimits;

use super::*;

const CONFIG: &str = "rate_hz: 50
streams:
  joints: {type: sensor_msgs/msg/JointState, topic: /joint_states, joints: [a], max_age_ms: 50}
commands:
  rate_hz: 250
  groups:
    arm:
      joints: [a]
      rows: {steps: 50, step_ms: 20}
      start_from: joints
      watchdog_ms: 1000
      limits: {urdf: arm.urdf, joints: {a: {acceleration: 10}}}
      output: {topic: /commands, type: std_msgs/msg/Float64MultiArray}
";
const URDF: &str = "<robot><joint name=\"a\" type=\"revolute\"><limit lower=\"-1\" upper=\"1\" \
                    velocity=\"2\"/></joint></robot>";

#[test]
fn a_recording_is_understood_without_the_files_of_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robot.yaml").display().to_string();
    fs::write(folder.path().join("arm.urdf"), URDF).unwrap();
    let definitions = Prefixes::default();
    let config = config::parse(CONFIG, &file).unwrap();
    let begins = Stamp::from_nanos(1_795_000_000_000_000_007);
    let episode = EpisodeFacts { name: "pick_1".into(), task: "pick".into(), begins };
    let episode = Some(episode);
    let manifest = Manifest { episode, ..Manifest::of(&config, false, true, "cpu") };
    fs::remove_file(folder.path().join("arm.urdf")).unwrap();
    assert!(config::parse(CONFIG, &file).is_err());
    let record = manifest.record();
    let read = Manifest::from_record(Path::new("a.mcap"), record).unwrap();
    assert_eq!(read, manifest);
    let again = read.config(&definitions).unwrap();
    assert_eq!(again, config);
    let limits = again.commands.unwrap().groups[0].joints[0].limits;
    let expected =
        JointLimits { position: Some([-1.0, 1.0]), velocity: Some(2.0), acceleration: Some(10.0) };
    assert_eq!(limits, expected);
    // Recordings of before have files of statistics under the same key.
    let key = format!("statistics {}", folder.path().join("arm.urdf").display());
    assert_eq!(manifest.record().metadata.get(&key).map(String::as_str), Some(URDF));
}
