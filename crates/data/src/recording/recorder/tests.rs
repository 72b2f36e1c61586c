use std::fs;
use std::path::Path;

use super::*;
use crate::bag::Bag;
use robocache_core::config;
use robocache_core::pipeline::Arrival;
use robocache_core::schema::Prefixes;
use robocache_testing::until;

const CONFIG: &str = "rate_hz: 10
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, strategy: hold, max_age_ms: 100}
  v: {type: geometry_msgs/WrenchStamped, topic: /v, strategy: hold, max_age_ms: 100}
  u: {type: geometry_msgs/WrenchStamped, topic: /u, strategy: hold, max_age_ms: 100}
";
const BEST_EFFORT: OfferedQos = OfferedQos { reliable: false, transient_local: false };
const LATCHED: OfferedQos = OfferedQos { reliable: true, transient_local: true };

/// The lines of a bag's quality of service that the graph tells.
fn told(qos: &str) -> Vec<&str> {
    let is_told = |line: &&str| line.contains("reliability") || line.contains("durability");
    qos.lines().map(str::trim).filter(is_told).collect()
}

/// The offers of a topic in `metadata.yaml`, which `ros2 bag play` reads.
fn in_metadata(recording: &Path, topic: &str) -> String {
    let metadata = fs::read_to_string(recording.join("metadata.yaml")).unwrap();
    let (_, after) = metadata.split_once(&format!("name: \"{topic}\"")).unwrap();
    let (_, qos) = after.split_once("offered_qos_profiles: \"").unwrap();
    qos.split('"').next().unwrap().replace("\\n", "\n")
}

#[test]
fn a_recording_has_the_quality_of_service_that_publishers_offer() {
    let folder = tempfile::tempdir().unwrap();
    let config = config::parse(CONFIG, "test.yaml").unwrap();
    let manifest = Manifest {
        topics: ["/w", "/v", "/u"].map(str::to_owned).to_vec(),
        ..Manifest::of(&config, true, false, "cpu")
    };
    // Its clock stands, so it waits for the graph however long that takes.
    let began = Instant::now();
    let now: Now = Arc::new(move || began);
    let options =
        RecordOptions { has_graph: true, now, ..RecordOptions::new(folder.path(), manifest) };
    let recorder =
        McapRecorder::start(options, &config, &Prefixes::default(), Some(Stamp::ZERO)).unwrap();
    let send = |input| {
        let at = Stamp::from_nanos(1_000_000_000);
        let arrival = Arrival { stamp: Some(at), ..Arrival::default() };
        let bytes = Arc::new(vec![0_u8, 1, 0, 0]);
        recorder.received(ReceivedMessage { input, bytes, arrival, at, published: None });
    };
    let written = |count| until("the messages", || recorder.status().messages == count);
    let [w, v] = [0, 1].map(InputId::new);
    // The graph tells of a publisher a moment after its first message, of another one much later, and of all again.
    send(w);
    recorder.offered(Some(w), vec![BEST_EFFORT]);
    recorder.offered(Some(v), vec![BEST_EFFORT, LATCHED]);
    recorder.offered(None, vec![BEST_EFFORT]);
    send(v);
    written(2);
    recorder.offered(Some(w), vec![BEST_EFFORT]);
    recorder.offered(Some(w), vec![LATCHED]);
    send(w);
    written(3);
    let recording = recorder.folder().to_owned();
    recorder.finish();

    let bag = Bag::open(&recording).unwrap();
    assert!(bag.problems.is_empty(), "{:?}", bag.problems);
    let best_effort = ["reliability: 2", "durability: 2"];
    let both = [best_effort, ["reliability: 1", "durability: 1"]].concat();
    // A channel has what was known at its first message. The list of the folder has all.
    let expected = [
        ("/w", 2, &best_effort[..], &both[..]),
        ("/v", 1, &both, &both),
        ("/u", 0, &[], &[]),
        ("/clock", 0, &best_effort, &best_effort),
    ];
    for (topic, messages, in_channel, in_list) in expected {
        let found: Vec<_> = bag.topics.iter().filter(|known| known.name == topic).collect();
        assert_eq!((found.len(), found[0].messages), (1, Some(messages)), "{topic}");
        assert_eq!(told(&found[0].offered_qos), in_channel, "{topic}");
        assert_eq!(told(&in_metadata(&recording, topic)), in_list, "{topic}");
    }
}
