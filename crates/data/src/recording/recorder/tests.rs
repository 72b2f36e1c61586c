use std::fs;
use std::path::Path;

use super::*;
use crate::bag::Bag;
use robocache_core::config;
use robocache_core::pipeline::Arrival;
use robocache_core::schema::Prefixes;
use robocache_runtime::VirtualTime;
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

/// A recorder on virtual time.
struct Recorded {
    recorder: McapRecorder,
    time: VirtualTime,
}

impl Recorded {
    fn start(folder: &Path) -> Self {
        let config = config::parse(CONFIG, "test.yaml").unwrap();
        let manifest = Manifest {
            topics: ["/w", "/v", "/u"].map(str::to_owned).to_vec(),
            ..Manifest::of(&config, true, false, "cpu")
        };
        let time = VirtualTime::starting_at(Stamp::ZERO);
        let options = RecordOptions::new(folder, manifest, time.source());
        let options = RecordOptions { has_graph: true, ..options };
        let start = Some(Stamp::ZERO);
        let recorder = McapRecorder::start(options, &config, &Prefixes::default(), start).unwrap();
        Recorded { recorder, time }
    }

    fn send(&self, input: InputId) {
        let at = Stamp::from_nanos(1_000_000_000);
        let arrival = Arrival { stamp: Some(at), ..Arrival::default() };
        let bytes = Arc::new(vec![0_u8, 1, 0, 0]);
        self.recorder.received(ReceivedMessage { input, bytes, arrival, at, published: None });
    }

    /// Waits until so many messages are written.
    fn written(&self, count: u64) {
        until("the messages", || self.recorder.status().messages == count);
    }

    /// Waits until the thread that writes had time to write what was sent, unless it waits for offers.
    fn turns(&self) {
        let before = self.time.readings();
        until("the thread that writes", || self.time.readings() > before + 10);
    }

    /// Waits in vain: a message waits, and the time for that passes.
    fn give_up(&self) {
        self.turns();
        self.time.advance(Duration::from_secs(2));
    }

    /// Ends the recording. Returns what the channels of these topics tell of the quality of service.
    fn channels(self, topics: [&str; 3]) -> [Vec<String>; 3] {
        let recording = self.recorder.folder();
        self.recorder.finish();
        let bag = Bag::open(&recording).unwrap();
        topics.map(|topic| {
            let found = bag.topics.iter().find(|known| known.name == topic).unwrap();
            told(&found.offered_qos).into_iter().map(str::to_owned).collect()
        })
    }
}

#[test]
fn a_publisher_that_vanishes_before_the_graph_shows_it_takes_nothing_from_other_topics() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = Recorded::start(folder.path());
    let [w, v, u] = [0, 1, 2].map(InputId::new);
    recorded.recorder.offered(Some(v), vec![LATCHED]);
    recorded.send(v);
    recorded.written(1);
    recorded.send(w);
    recorded.give_up();
    recorded.written(2);
    recorded.send(u);
    recorded.turns();
    assert_eq!(recorded.recorder.status().messages, 2, "it waits");
    recorded.recorder.offered(Some(u), vec![BEST_EFFORT]);
    recorded.written(3);
    let [w, v, u] = recorded.channels(["/w", "/v", "/u"]);
    assert!(w.is_empty(), "{w:?}");
    assert_eq!(v, ["reliability: 1", "durability: 1"]);
    assert_eq!(u, ["reliability: 2", "durability: 2"]);
}

#[test]
fn if_the_graph_tells_nothing_at_all_one_topic_waits_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = Recorded::start(folder.path());
    let [w, v, u] = [0, 1, 2].map(InputId::new);
    recorded.send(w);
    recorded.give_up();
    recorded.written(1);
    // The clock stands, so this one does not wait.
    recorded.send(v);
    recorded.written(2);
    // The graph was only late.
    recorded.recorder.offered(Some(v), vec![LATCHED]);
    recorded.send(u);
    recorded.turns();
    assert_eq!(recorded.recorder.status().messages, 2, "it waits");
    recorded.recorder.offered(Some(u), vec![BEST_EFFORT]);
    recorded.written(3);
    let [w, v, u] = recorded.channels(["/w", "/v", "/u"]);
    assert!(w.is_empty() && v.is_empty(), "{w:?} {v:?}");
    assert_eq!(u, ["reliability: 2", "durability: 2"]);
}

#[test]
fn a_recording_has_the_quality_of_service_that_publishers_offer() {
    let folder = tempfile::tempdir().unwrap();
    // Its clock stands, so it waits for the graph however long that takes.
    let recorded = Recorded::start(folder.path());
    let recorder = &recorded.recorder;
    let [w, v] = [0, 1].map(InputId::new);
    // The graph tells of a publisher a moment after its first message, of another one much later, and of all again.
    recorded.send(w);
    recorder.offered(Some(w), vec![BEST_EFFORT]);
    recorder.offered(Some(v), vec![BEST_EFFORT, LATCHED]);
    recorder.offered(None, vec![BEST_EFFORT]);
    recorded.send(v);
    recorded.written(2);
    recorder.offered(Some(w), vec![BEST_EFFORT]);
    recorder.offered(Some(w), vec![LATCHED]);
    recorded.send(w);
    recorded.written(3);
    let recording = recorder.folder();
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
