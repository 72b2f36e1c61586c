//! Messages that waited in the middleware's queue, under `timeline: receive`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{By, Node, WRENCH, config_text, verified, wrench};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::Pipeline;
use robocache_data::bag::Bag;
use robocache_data::file::OutputError;
use robocache_data::output::Output;
use robocache_data::recording::{EVENT_TYPE, RecordingEvent};
use robocache_data::replay::{AskedClock, Episode, Playing, Progress, Wiring, run};
use robocache_ops::time::Stamp;
use robocache_runtime::{Event, Tick, TickFate, Transit};

/// The digests of tensors, by tick.
#[derive(Default)]
struct Digests(BTreeMap<i64, u64>);

impl Output for Digests {
    fn tick(&mut self, tick: Tick, message: &TensorMessage) -> Result<(), OutputError> {
        self.0.insert(tick.number, message.digest().unwrap());
        Ok(())
    }
}

struct Ever;

impl Progress for Ever {
    fn at(&self, _: Stamp) -> bool {
        true
    }
}

/// Digests of the tensors that `robocache replay` makes of the recording.
fn replayed(bag: &Bag, text: &str) -> Digests {
    let config = config::parse(text, "robot.yaml").unwrap();
    let wiring = Wiring::new(bag, &config, &[], &AskedClock::Auto).unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let pipeline = Pipeline::new(config, backend).unwrap();
    let episode = Episode { bag: bag.path.clone(), ..Episode::default() };
    let playing = Playing { digest: true, threads: 1 };
    let mut digests = Digests::default();
    run(bag, &episode, &wiring, pipeline, &mut digests, playing, &Ever).unwrap();
    digests
}

/// Digests of the tensors that the node has published.
fn published(bag: &Bag) -> Digests {
    let wanted: Vec<bool> = bag.topics.iter().map(|topic| topic.ros_type == EVENT_TYPE).collect();
    let digest = |bytes: &[u8]| match RecordingEvent::read(bytes).unwrap() {
        RecordingEvent::Node(Event::Tick(tick)) => match tick.fate {
            TickFate::Published { digest } => Some((tick.tick, digest?)),
            _ => None,
        },
        _ => None,
    };
    let messages = bag.messages(&wanted).unwrap();
    Digests(messages.filter_map(|recorded| digest(&recorded.bytes)).collect())
}

/// Wrenches at 250 Hz. A busy process takes five of them at a time.
fn drive_in_bursts(node: &Node) {
    let mut waiting = Vec::new();
    for k in 0..400_u32 {
        node.go_on(4);
        // Some share a receive stamp with the one before.
        let stamp = match waiting.last() {
            Some((_, stamp)) if k % 7 == 0 => *stamp,
            _ => node.now(),
        };
        waiting.push((k, stamp));
        if k % 5 == 0 {
            for (k, stamp) in waiting.drain(..) {
                let transit = Transit { published_ns: None, arrived_ns: Some(stamp.nanos()) };
                let bytes = wrench(Stamp::ZERO, f64::from(k) / 100.0);
                node.receive_with(WRENCH, bytes, transit);
            }
        }
    }
    node.go_on(700);
}

#[test]
fn rows_at_receive_stamps_are_the_same_live_verified_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(600.0, 600.0).replace("streams:", "timeline: receive\nstreams:");
    let node = Node::start(&text, folder.path(), |_| {}, By::Test);
    drive_in_bursts(&node);
    let stats = node.runtime.stream_stats(robocache_core::spec::StreamId::new(0));
    assert_eq!((stats.rows.get(), stats.replaced.get(), stats.reordered.get()), (396, 0, 0));
    let ticks = node.published();
    let recording = node.stop();
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert_eq!((report.equal, ticks), (230, 230));
    let bag = Bag::open(&recording).unwrap();
    let (Digests(live), Digests(again)) = (published(&bag), replayed(&bag, &text));
    let both = live.iter().filter(|(tick, _)| again.contains_key(tick)).count();
    let equal = live.iter().filter(|(tick, digest)| again.get(tick) == Some(digest)).count();
    assert_eq!(equal, both);
    assert!(both > 150, "{both} of {}", live.len());
}
