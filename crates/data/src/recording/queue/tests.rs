use std::sync::Arc;

use super::*;
use robocache_core::pipeline::Arrival;

const CONFIG: &str = "
rate_hz: 100
tf: {}
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 50
    t_base_sensor: tf
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";

/// Most messages that wait.
const MESSAGES: usize = 1 << 8;

fn queue(bytes: usize) -> (Queue, Waiting, [InputId; 3]) {
    let config = robocache_core::config::parse(CONFIG, "test.yaml").unwrap();
    let room = QueueRoom { messages: MESSAGES, bytes };
    let recorded = vec![true; config.inputs.len()];
    let (queue, waiting) = Queue::new(PathBuf::new(), &config, recorded, room, TimeSource::real());
    let input =
        |topic: &str| config.input_ids().find(|id| config.input(*id).topic == topic).unwrap();
    (queue, waiting, [input("/w"), input("/points"), input("/tf")])
}

fn receive(queue: &Queue, input: InputId, bytes: &Arc<Vec<u8>>) -> bool {
    let bytes = Arc::clone(bytes) as _;
    let arrival = Arrival::default();
    let at = Stamp::ZERO;
    queue.receive(ReceivedMessage { input, bytes, arrival, at, published: None }) > 0
}

#[test]
fn the_last_places_are_for_transforms_and_events_have_their_own() {
    let (queue, waiting, [wrench, _, tf]) = queue(usize::MAX);
    let bytes = Arc::new(vec![0; 4]);
    let taken = |input| (0..=2 * MESSAGES).take_while(|_| receive(&queue, input, &bytes)).count();
    let [wrenches, transforms] = [wrench, tf].map(taken);
    assert_eq!([wrenches, transforms], [MESSAGES / 16 * 15, MESSAGES / 16]);
    for tick in 0..=EVENTS * MESSAGES {
        queue.tell(Item::Event(Event::Overruns { before: tick as i64, ticks: 1 }));
    }
    let status = queue.status();
    assert_eq!((status.lost, status.lost_events), (2, 1));
    assert!(queue.has_lost() && !queue.has_lost());
    let gaps: Vec<Gap> = queue.lost_messages().collect();
    let first = wrenches as u64 + 1;
    assert_eq!((gaps[0].input, gaps[0].messages, gaps[0].first), (wrench, 1, first));
    assert_eq!((gaps[1].input, gaps[1].last), (tf, MESSAGES as u64 + 2));
    assert_eq!(queue.lost_events().map(|(count, _)| count), Some(1));
    // What leaves makes room.
    let mut left = 0;
    while let Some((item, _)) = waiting.next() {
        queue.left(&item);
        left += 1;
    }
    assert_eq!(left, (1 + EVENTS) * MESSAGES);
    let counts = [&queue.messages, &queue.bytes, &queue.events];
    assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [0; 3]);
}

#[test]
fn large_messages_are_refused_first_and_transforms_last() {
    let (queue, _waiting, [wrench, points, tf]) = queue(16 << 20);
    let [large, small] = [1 << 20, 1 << 15].map(|len| Arc::new(vec![0; len]));
    let taken =
        |input, bytes| (0..=2 * MESSAGES).take_while(|_| receive(&queue, input, bytes)).count();
    assert_eq!(taken(points, &large), 14);
    assert_eq!(taken(wrench, &small), 32);
    assert_eq!(taken(tf, &small), 32);
}

#[test]
fn nothing_is_lost_to_a_writer_that_is_gone() {
    let (queue, waiting, [wrench, ..]) = queue(1 << 20);
    drop(waiting);
    assert!(!receive(&queue, wrench, &Arc::new(vec![0])));
    queue.tell(Item::Event(Event::Overruns { before: 1, ticks: 1 }));
    let status = queue.status();
    assert_eq!((status.lost, status.lost_events), (0, 0));
}
