//! A publisher and readers, in one process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, UNIX_EPOCH};

use iceoryx2::prelude::ZeroCopySend;

use super::*;
use robocache_core::backend::Backend;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::config;
use robocache_core::config::describe::shared_memory::{HELD, READERS, shared_output_bytes};
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Arrival, Pipeline, TickOutcome};
use robocache_core::spec::InputId;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};
use robocache_testing::Wait;

const WRENCH: &str = "rate_hz: 100
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /w, strategy: hold, max_age_ms: 100000, history: {steps: 3, step_ms: 10}}
";
const LARGER: &str = "rate_hz: 100
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /w, strategy: hold, max_age_ms: 100000, history: {steps: 300, step_ms: 10}}
";

/// A name that no other test has, nor one before whose process was killed: its files are still there.
pub(crate) fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static BEGAN: LazyLock<u128> = LazyLock::new(|| UNIX_EPOCH.elapsed().unwrap().as_nanos());
    let process = std::process::id();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("robocache_test/{process}/{}/{next}", *BEGAN)
}

/// Waits for the next tensor.
#[track_caller]
fn awaited(reader: &mut TensorReader) -> TensorSample {
    let mut wait = Wait::new("a tensor");
    loop {
        if let Some(tensor) = reader.wait(wait.slice()).unwrap() {
            return tensor;
        }
        wait.check();
    }
}

fn pipeline(text: &str) -> Pipeline {
    let config = config::parse(text, "test.yaml").unwrap();
    let backend: Arc<dyn Backend> =
        Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    Pipeline::new(config, backend).unwrap()
}

/// On the first GPU; `None` without one.
#[cfg(feature = "cuda")]
fn pipeline_on_gpu(text: &str) -> Option<Pipeline> {
    let config = config::parse(text, "test.yaml").unwrap();
    let device = robocache_ops::device::Device::open(0).ok()?;
    let layout = Layout::new(&config);
    let backend = robocache_core::backend::cuda::CudaBackend::new(&device, &config, &layout);
    Some(Pipeline::new(config, Arc::new(backend.unwrap())).unwrap())
}

/// A node without threads: it fuses into messages that go around as in the runtime.
struct TestNode {
    pipeline: Pipeline,
    publisher: TensorPublisher,
    messages: Vec<TensorMessage>,
    tick: i64,
}

impl TestNode {
    fn new(service: &str, text: &str, run: u64) -> Self {
        Self::on(service, pipeline(text).with_run(run))
    }

    fn on(service: &str, pipeline: Pipeline) -> Self {
        let publisher = TensorPublisher::new(service, &pipeline).unwrap();
        let messages = (0..3).map(|_| pipeline.new_message()).collect();
        TestNode { pipeline, publisher, messages, tick: 100 }
    }

    /// Sends a wrench if `value` is some, then fuses and sends a tick. Returns what was sent, and to how many.
    fn tick(&mut self, value: Option<f64>) -> (Vec<u8>, usize) {
        self.tick += 1;
        let stamp = Stamp::from_nanos(self.tick * 10 * NANOS_PER_MS);
        if let Some(value) = value {
            let mut writer = Writer::new();
            writer.header(stamp, "tool");
            writer.f64_array(&[value; 6]);
            let arrival = Arrival { stamp: Some(stamp), ..Arrival::default() };
            self.pipeline.push(InputId::new(0), &writer.finish(), arrival).unwrap();
        }
        let mut message = self.messages.remove(0);
        let outcome = self.pipeline.tick(self.tick, Epoch::default(), &mut message).unwrap();
        assert_eq!(outcome, TickOutcome::Ready);
        message.seal();
        let sent = message.message().to_vec();
        let readers = self.publisher.send(&mut message).unwrap();
        assert_eq!(message.message(), sent, "it may be read until it is exchanged");
        self.publisher.exchange(&self.pipeline, &mut message).unwrap();
        self.messages.push(message);
        (sent, readers)
    }
}

#[test]
fn a_reader_gets_each_tensor_in_place_and_the_bits_of_a_message_of_its_own() {
    in_place(pipeline(WRENCH));
}

/// The GPU writes the memory that readers map.
#[cfg(feature = "cuda")]
#[test]
fn on_a_gpu_too() {
    match pipeline_on_gpu(WRENCH) {
        Some(pipeline) => in_place(pipeline),
        None => println!("was skipped: no GPU"),
    }
}

fn in_place(pipeline_of_node: Pipeline) {
    let service = name();
    let mut node = TestNode::on(&service, pipeline_of_node);
    // What `check` says, and what the engine notes of each chunk.
    let said = shared_output_bytes(node.pipeline.message_memory_len()) as u64;
    let taken = node.publisher.memory_bytes();
    assert!((said - 5 * 4096..=said).contains(&taken), "{taken} of {said}");
    let mut reader = TensorReader::new(&service).unwrap();
    let alone = pipeline(WRENCH);
    let mut fresh = alone.new_message();
    let mut kept = std::collections::VecDeque::new();
    for k in 0..400_i64 {
        // Values come in some of the ticks. So chunks with old bytes come around, and ticks skip what has not changed.
        let value = (k % 7 < 3).then_some(k as f64);
        let (sent, readers) = node.tick(value);
        assert_eq!(readers, 1);
        if k > 2 {
            assert!(node.messages.iter().all(|message| message.is_lent() || k < 3));
        }
        let tensor = awaited(&mut reader);
        assert_eq!(tensor.message(), sent);
        // The same ticks into a message that no reader has.
        if let Some(value) = value {
            let stamp = Stamp::from_nanos(node.tick * 10 * NANOS_PER_MS);
            let mut writer = Writer::new();
            writer.header(stamp, "tool");
            writer.f64_array(&[value; 6]);
            let arrival = Arrival { stamp: Some(stamp), ..Arrival::default() };
            alone.push(InputId::new(0), &writer.finish(), arrival).unwrap();
        }
        alone.tick(node.tick, Epoch::default(), &mut fresh).unwrap();
        fresh.seal();
        assert_eq!(tensor.message(), fresh.message(), "tick {k}");
        let data = fresh.data().as_ptr() as usize - fresh.message().as_ptr() as usize;
        assert_eq!((tensor.message().as_ptr() as usize + data) % 64, 0);
        // Up to three are kept, so that many chunks go around.
        kept.push_back(tensor);
        while kept.len() > (k as usize * 7) % 4 {
            kept.pop_front();
        }
    }
    assert_eq!(reader.missed(), 0);
}

#[test]
fn the_newest_counts_and_those_that_went_unread_are_counted() {
    let service = name();
    let mut node = TestNode::new(&service, WRENCH, 1);
    let mut reader = TensorReader::new(&service).unwrap();
    node.tick(Some(1.0));
    assert!(reader.latest().unwrap().is_some());
    let sent: Vec<_> = (0..10).map(|k| node.tick(Some(f64::from(k))).0).collect();
    assert_eq!(reader.latest().unwrap().unwrap().message(), sent[9]);
    assert!(reader.latest().unwrap().is_none());
    assert_eq!(reader.missed(), 9);
    assert!(reader.wait(Duration::from_millis(20)).unwrap().is_none());
}

#[test]
fn a_tensor_that_is_kept_does_not_change_and_more_of_them_are_copies() {
    let service = name();
    let mut node = TestNode::new(&service, WRENCH, 1);
    let mut reader = TensorReader::new(&service).unwrap();
    let mut kept = Vec::new();
    for k in 0..2 * HELD {
        let (sent, _) = node.tick(Some(k as f64));
        kept.push((awaited(&mut reader), sent));
    }
    assert_eq!(reader.copied(), HELD as u64);
    for k in 0..100 {
        node.tick(Some(f64::from(1000 + k)));
    }
    assert!(kept.iter().all(|(tensor, sent)| tensor.message() == sent));
    kept.clear();
    node.tick(Some(0.0));
    assert!(reader.latest().unwrap().is_some());
    assert_eq!(reader.copied(), HELD as u64, "the memory of those before came back");
    // A tensor outlives its reader, while the node goes on, and the node.
    let (sent, _) = node.tick(Some(5.0));
    let last = awaited(&mut reader);
    drop(reader);
    for k in 0..100 {
        node.tick(Some(f64::from(2000 + k)));
        assert_eq!(last.message(), sent);
    }
    drop(node);
    assert_eq!(last.message(), sent);
}

#[test]
fn a_reader_may_come_first_and_a_node_may_start_again_with_another_layout() {
    let service = name();
    let mut reader = TensorReader::new(&service).unwrap();
    assert!(reader.latest().unwrap().is_none());
    for (run, text) in [(1, WRENCH), (2, LARGER), (3, WRENCH)] {
        let mut node = TestNode::new(&service, text, run);
        let info = InfoPublisher::new(&service, run, format!("of run {run}").as_bytes()).unwrap();
        // In a program the reader waits, and the node's notifier has woken it.
        assert!(reader.latest().unwrap().is_none());
        let (sent, _) = node.tick(Some(run as f64));
        let tensor = awaited(&mut reader);
        assert_eq!(tensor.message(), sent);
        // The first look subscribes, and the node then serves the new subscriber.
        let of = (0..10).find_map(|_| {
            info.follow().unwrap();
            reader.info().unwrap().map(<[u8]>::to_vec)
        });
        let of = of.unwrap();
        assert_eq!(String::from_utf8(of).unwrap(), format!("of run {run}"));
    }
}

#[test]
fn another_pipeline_goes_on_in_the_same_memory_and_keeps_nothing_of_the_one_before() {
    let service = name();
    let mut node = TestNode::new(&service, WRENCH, 1);
    let mut reader = TensorReader::new(&service).unwrap();
    let mut kept = Vec::new();
    for value in 0..3 {
        node.tick(Some(f64::from(value)));
        kept.push(awaited(&mut reader));
    }
    let before: Vec<_> = kept.iter().map(|tensor| tensor.message().to_vec()).collect();
    let mut info = InfoPublisher::new(&service, 1, b"what they mean").unwrap();
    // The first look subscribes.
    assert_eq!(reader.info().unwrap(), None);
    info.follow().unwrap();
    assert!(reader.info().unwrap().is_some());
    for run in 2..5 {
        node.messages.clear();
        node.pipeline = pipeline(WRENCH).with_run(run);
        node.publisher.serve(&node.pipeline);
        info.serve(run).unwrap();
        node.messages = (0..3).map(|_| node.pipeline.new_message()).collect();
        for k in 0..20 {
            let (sent, readers) = node.tick(None);
            let tensor = awaited(&mut reader);
            assert_eq!((tensor.message(), readers), (&sent[..], 1));
            assert_eq!((tensor.run(), node.pipeline.run()), (run, run));
            assert_eq!(reader.info().unwrap(), Some(&b"what they mean"[..]));
            assert!(k < 3 || node.messages.iter().all(TensorMessage::is_lent), "in place again");
        }
        let steps = node.messages[0].steps(robocache_core::spec::SegmentId::new(0)).to_vec();
        assert!(steps.iter().all(|step| !step.valid), "no value of the pipeline before");
    }
    assert!(kept.iter().zip(&before).all(|(tensor, sent)| tensor.message() == sent));
}

#[test]
fn a_later_reader_gets_the_newest_tensor_with_the_next_one_and_the_info_at_once() {
    let service = name();
    let mut node = TestNode::new(&service, WRENCH, 7);
    let info = InfoPublisher::new(&service, 7, b"what they mean").unwrap();
    node.tick(Some(1.0));
    let mut reader = TensorReader::new(&service).unwrap();
    let (sent, _) = node.tick(Some(2.0));
    assert_eq!(awaited(&mut reader).message(), sent);
    info.follow().unwrap();
    assert_eq!(reader.info().unwrap(), Some(&b"what they mean"[..]));
}

#[test]
fn names_publishers_readers_and_memory_are_limited() {
    let words = |error: SharedError| error.to_string();
    for wrong in ["", "a b", "naïve", &"x".repeat(200)] {
        assert!(words(TensorReader::new(wrong).unwrap_err()).starts_with("expected the name"));
    }
    let service = name();
    let node = TestNode::new(&service, WRENCH, 1);
    let second = TensorPublisher::new(&service, &node.pipeline).unwrap_err();
    assert!(words(second).starts_with("another node publishes as"));
    let readers: Vec<_> = (0..READERS).map(|_| TensorReader::new(&service).unwrap()).collect();
    let full = words(TensorReader::new(&service).unwrap_err());
    assert!(full.contains("has 4 readers already"), "{full}");
    drop(readers);
    TensorReader::new(&service).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let error = words(room::check_in(folder.path(), "s", u64::MAX).unwrap_err());
    assert!(error.contains("has room for") && error.contains("--shm-size"), "{error}");
}

/// The header of a program that knows another layout of the message.
#[derive(Clone, Copy, Debug, Default, ZeroCopySend)]
#[repr(C)]
struct OtherHeader([u64; 4]);

#[test]
fn a_node_of_another_version_is_refused_by_words() {
    let service = name();
    let node = service::node(&service).unwrap();
    let other = node.service_builder(&service::name_of(&service).unwrap());
    let other = other.publish_subscribe::<[service::Page]>().user_header::<OtherHeader>();
    let _other = other.open_or_create().unwrap();
    let refused = TensorReader::new(&service).unwrap_err();
    assert!(matches!(refused, SharedError::OtherVersion { .. }), "{refused}");
    let refused = TensorPublisher::new(&service, &pipeline(WRENCH)).unwrap_err();
    assert!(refused.to_string().contains("was made by another version of robocache"), "{refused}");
}

#[test]
fn names_that_would_be_another_service_are_refused() {
    for name in ["", "/", "/robot/x", "robot//x", "robot/", "robot x", "robot:info"] {
        let refused = TensorReader::new(name);
        assert!(matches!(refused, Err(SharedError::Name { .. })), "{name}");
    }
}

#[test]
fn a_reader_of_a_wrong_name_can_say_which_names_there_are() {
    let service = name();
    let reader = TensorReader::new(&format!("{service}/wrong")).unwrap();
    assert!(!reader.services().unwrap().contains(&service));
    let node = TestNode::new(&service, WRENCH, 1);
    let _info = InfoPublisher::new(&service, 1, b"what they mean").unwrap();
    let found: Vec<_> =
        reader.services().unwrap().into_iter().filter(|name| name.starts_with(&service)).collect();
    // Neither what the tensors mean nor what wakes readers is a name.
    assert_eq!(found, std::slice::from_ref(&service));
    assert!(!reader.is_open());
    assert!(TensorReader::new(&service).unwrap().is_open());
    drop(node);
}
