//! Threads that push large messages for a [`Player`](super::Player).
//!
//! The messages of a stream are pushed in their order, one at a time, and the player waits for all of them
//! before anything that could see the difference: a tick, an epoch. So the result is that of one thread. Only
//! streams take part that need no frames and no CameraInfo, as those depend on what was pushed before.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::intake::Pushing;
use super::queue::{self, Message, Queue};
use super::{Runtime, RuntimeError};
use crate::spec::{Config, InputId};
use crate::sync::lock;

/// Messages that may wait, for each thread. A cloud or an image has a megabyte.
const WAITING: usize = 4;

/// The threads, and the messages on their way to them.
pub(super) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    most: usize,
    /// By input: whether its messages go to the threads.
    takes: Vec<bool>,
}

struct Shared {
    runtime: Arc<Runtime>,
    queue: Queue,
    state: Mutex<State>,
    /// A message is done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// Messages that are not done.
    pending: usize,
    /// The first error.
    error: Option<RuntimeError>,
}

/// Counts a message as done when it is dropped, so that a panic leaves nobody waiting.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.pending -= 1;
        if std::thread::panicking() {
            state.error.get_or_insert(RuntimeError::Panicked("encode"));
        }
        drop(state);
        self.0.done.notify_all();
    }
}

impl Crew {
    /// Starts at most this many threads, one per stream of large messages; `None` if no stream may use one.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(runtime: &Arc<Runtime>, threads: usize) -> Result<Option<Self>, RuntimeError> {
        let config = runtime.pipeline.config();
        let takes = takes(config);
        let lanes = queue::lanes(config);
        let used = takes.iter().zip(&lanes).filter(|(takes, _)| **takes);
        let used: HashSet<usize> = used.map(|(_, lane)| *lane).collect();
        let count = threads.min(used.len());
        if count == 0 {
            return Ok(None);
        }
        let shared = Arc::new(Shared {
            runtime: Arc::clone(runtime),
            // Its bound is that of `put`.
            queue: Queue::new(usize::MAX, lanes),
            state: Mutex::default(),
            done: Condvar::new(),
        });
        let mut crew = Crew { shared, threads: Vec::new(), most: WAITING * count, takes };
        for _ in 0..count {
            let shared = Arc::clone(&crew.shared);
            let thread = std::thread::Builder::new().name("encode".into());
            let thread = thread.spawn(move || shared.work());
            let failed = |source| RuntimeError::Thread { name: "encode", source };
            crew.threads.push(thread.map_err(failed)?);
        }
        Ok(Some(crew))
    }

    /// Whether messages of an input go to the threads.
    pub fn takes(&self, input: InputId) -> bool {
        self.takes[input.index()]
    }

    /// Gives a message to the threads. Waits while too many are on their way.
    ///
    /// # Errors
    /// That of an earlier message.
    pub fn put(&self, message: Message) -> Result<(), RuntimeError> {
        self.wait_for(self.most - 1)?;
        lock(&self.shared.state).pending += 1;
        self.shared.queue.put(message);
        Ok(())
    }

    /// Waits until all messages are pushed.
    ///
    /// # Errors
    /// That of one of them.
    pub fn wait(&self) -> Result<(), RuntimeError> {
        self.wait_for(0)
    }

    fn wait_for(&self, most: usize) -> Result<(), RuntimeError> {
        let mut state = lock(&self.shared.state);
        while state.pending > most && state.error.is_none() {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.error.take().map_or(Ok(()), Err)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            // A panic was told when its message was waited for.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(taken) = self.queue.take() {
            let _done = Done(self);
            let message = &taken.message;
            // None of these inputs can wait for a transform.
            let bytes = (*message.bytes).as_ref();
            let pushed = self.runtime.push(Pushing::of(message), bytes, message.arrival);
            if let Err(error) = pushed {
                lock(&self.state).error.get_or_insert(error);
            }
            // The lane must be free before the player goes on.
            drop(taken);
        }
    }
}

/// By input: whether its rows depend on the messages of its own stream alone.
fn takes(config: &Config) -> Vec<bool> {
    let alone = |id: InputId| {
        let spec = config.input(id);
        spec.is_large() && !spec.asks_for_frames(&config.streams)
    };
    let takes = |id: InputId| match config.input(id).stream {
        Some(stream) => config.camera_of(stream).is_none() && config.inputs_of(stream).all(alone),
        None => false,
    };
    config.input_ids().map(takes).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Failing, image, ms};
    use super::super::{Player, Received, Served};
    use super::*;
    use crate::backend::{Backend, BackendError, Slot, StepJob};
    use crate::device::OutputMut;
    use crate::input::Sample;
    use crate::ops::voxelize::PointDrops;
    use crate::pipeline::Pipeline;
    use crate::spec::RingId;

    struct Panicking;

    impl Backend for Panicking {
        fn name(&self) -> &'static str {
            "panicking"
        }

        fn encode(&self, _: RingId, _: Slot, _: Sample<'_>) -> Result<PointDrops, BackendError> {
            panic!("as it must in this test")
        }

        fn fuse(&self, _: &[StepJob], _: OutputMut<'_>) -> Result<(), BackendError> {
            Ok(())
        }
    }

    /// What ends the replay of some images on two threads.
    fn end_on(backend: Arc<dyn Backend>) -> String {
        let text = "
rate_hz: 100
streams:
  a: {type: sensor_msgs/Image, topic: /a, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
  b: {type: sensor_msgs/Image, topic: /b, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
";
        let config = crate::config::parse(text, "test.yaml").unwrap();
        let player = Player::new(Pipeline::new(config, backend).unwrap(), false);
        let mut player = player.with_threads(2).unwrap();
        let mut serve = |_: Served<'_>| -> Result<(), RuntimeError> { Ok(()) };
        for k in 0..100 {
            let (input, received) = (InputId::new(k % 2), Received::at(ms(1000)));
            if let Err(error) = player.receive(input, image(ms(900)), received, &mut serve) {
                return error.to_string();
            }
        }
        player.end(ms(1010), &mut serve).unwrap_err().to_string()
    }

    #[test]
    fn a_failure_on_a_thread_ends_the_replay() {
        let failed = end_on(Arc::new(Failing));
        assert!(failed.contains("backend failing: out of memory"), "{failed}");
        let panicked = end_on(Arc::new(Panicking));
        let expected = ["the encode thread panicked", "made it panic"];
        assert!(expected.iter().any(|part| panicked.contains(part)), "{panicked}");
    }

    #[test]
    fn streams_that_need_frames_or_a_camera_stay_on_the_players_thread() {
        let text = "
rate_hz: 100
tf: {}
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}
  plain: {type: sensor_msgs/Image, topic: /a, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
  bent:
    type: sensor_msgs/Image
    topic: /b
    max_age_ms: 50
    image: {resize: {width: 8, height: 4}, undistort: {camera_info: /info}}
  moved:
    type: sensor_msgs/PointCloud2
    topic: /c
    max_age_ms: 50
    t_base_sensor: tf
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
  still:
    type: sensor_msgs/PointCloud2
    topic: /d
    max_age_ms: 50
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
        let config = crate::config::parse(text, "test.yaml").unwrap();
        let taken = takes(&config);
        let named = config.input_ids().filter(|id| taken[id.index()]);
        let names: Vec<&str> = named.map(|id| config.input(id).name.as_str()).collect();
        assert_eq!(names, ["plain", "still"]);
    }
}
