//! Episodes on request: the services `~/record` and `~/mark`, and the topic that begins and ends episodes.

use std::sync::{Arc, Mutex};

use super::recording::Recording;
use super::requests::{Offerer, Taken, answer_bytes};
use robocache_core::cdr::{CdrError, Reader, Writer};
use robocache_core::schema::Prefixes;
use robocache_data::recording::{EpisodeRequest, MarkRequest, McapRecorder};
use robocache_data::replay::{EpisodeNumber, EpisodeTopic};
use robocache_ops::sync::lock;
use robocache_rcl::{NamedService, Node, Qos, SerializedMessage, Subscription, Wake};
use robocache_runtime::Runtime;

/// Messages of a button that wait: a press is not lost behind others.
const DEPTH: usize = 64;

/// Begins and ends episodes, while the node works.
#[derive(Clone)]
pub(crate) struct EpisodeSwitch {
    recording: Recording,
    work: Arc<Mutex<Option<Work>>>,
}

/// A stretch of work, as far as episodes need it.
struct Work {
    runtime: Arc<Runtime>,
    /// The topic that begins and ends episodes.
    when: Option<EpisodeTopic>,
    /// True if the newest message of the topic was not zero.
    is_set: bool,
}

/// Outcome of a request: a message and the folder; or the reason why nothing happened.
type Done = Result<(String, String), String>;

impl EpisodeSwitch {
    /// Switches the episodes of this recording.
    pub(crate) fn new(recording: Recording) -> Self {
        EpisodeSwitch { recording, work: Arc::default() }
    }

    /// Switches while this runtime works, or while none does. `when` is the topic that begins and ends episodes.
    pub(crate) fn set(&self, runtime: Option<Arc<Runtime>>, when: Option<EpisodeTopic>) {
        *lock(&self.work) = runtime.map(|runtime| Work { runtime, when, is_set: false });
    }

    fn when(&self) -> Option<EpisodeTopic> {
        lock(&self.work).as_ref()?.when.clone()
    }

    fn recorder(&self) -> Result<(Arc<Runtime>, Arc<McapRecorder>), String> {
        let runtime = lock(&self.work).as_ref().map(|work| Arc::clone(&work.runtime));
        let runtime = runtime.ok_or("the node is not active")?;
        let recorder = self.recording.recorder().ok_or("nothing is recorded: set episodes_to")?;
        Ok((runtime, recorder))
    }

    fn begin(&self, name: String, task: String) -> Done {
        let (runtime, recorder) = self.recorder()?;
        let at = runtime.clock.now().map(|now| (now.epoch, now.stamp));
        let folder = recorder.begin(EpisodeRequest { name, task, at });
        let folder = folder.map_err(|error| error.to_string())?.display().to_string();
        Ok(("the episode begins".to_owned(), folder))
    }

    fn end(&self) -> Done {
        let folder = self.recorder()?.1.end().map_err(|error| error.to_string())?;
        Ok(("the episode is complete".to_owned(), folder.display().to_string()))
    }

    fn mark(&self, name: String, value: String) -> Done {
        let (runtime, recorder) = self.recorder()?;
        let at = runtime.clock.now().map(|now| now.stamp);
        let folder = recorder.mark(MarkRequest { name, value, at });
        let folder = folder.map_err(|error| error.to_string())?;
        Ok((String::new(), folder.display().to_string()))
    }

    /// The number of the topic is zero, or is not. While two connections hear the topic, each change counts once.
    fn turn(&self, is_set: bool) {
        let was_set =
            lock(&self.work).as_mut().map(|work| std::mem::replace(&mut work.is_set, is_set));
        let done = match was_set {
            Some(false) if is_set => self.begin(String::new(), String::new()),
            Some(true) if !is_set => self.end(),
            _ => return,
        };
        if let Err(error) = done {
            tracing::error!("record_when: {error}");
        }
    }
}

/// The services of episodes.
pub(crate) struct EpisodeServices {
    record: NamedService,
    mark: NamedService,
    trigger: Trigger,
}

/// Hears the topic that begins and ends episodes.
struct Trigger {
    node: Node,
    wake: Arc<Wake>,
    switch: EpisodeSwitch,
    heard: Option<Heard>,
    /// The last reason why the topic is not heard.
    said: String,
}

struct Heard {
    when: EpisodeTopic,
    number: EpisodeNumber,
    subscription: Subscription,
    message: SerializedMessage,
}

impl EpisodeServices {
    /// Offers them.
    ///
    /// # Errors
    /// The middleware refuses.
    pub(crate) fn new(offerer: Offerer<'_>, switch: EpisodeSwitch) -> robocache_rcl::Result<Self> {
        Ok(EpisodeServices {
            record: offerer.offer_named("record", "robocache_ros/srv/Record")?,
            mark: offerer.offer_named("mark", "robocache_ros/srv/Mark")?,
            trigger: Trigger {
                node: offerer.node.clone(),
                wake: Arc::clone(offerer.wake),
                switch,
                heard: None,
                said: String::new(),
            },
        })
    }

    /// Answers one request of each, if one waits, and takes what the topic says.
    pub(crate) fn serve(&mut self, taken: &mut Taken) {
        let switch = &self.trigger.switch;
        answer_bytes(&self.record, taken, |request| {
            let done = match read_record(request) {
                Ok((true, name, task)) => switch.begin(name, task),
                Ok((false, ..)) => switch.end(),
                Err(error) => Err(error.to_string()),
            };
            let (success, message, folder) = parts(done);
            let mut writer = Writer::new();
            writer.u8(u8::from(success));
            writer.string(&message);
            writer.string(&folder);
            writer.finish()
        });
        answer_bytes(&self.mark, taken, |request| {
            let read = read_mark(request).map_err(|error| error.to_string());
            let (success, message, _) =
                parts(read.and_then(|(name, value)| switch.mark(name, value)));
            let mut writer = Writer::new();
            writer.u8(u8::from(success));
            writer.string(&message);
            writer.finish()
        });
        self.trigger.serve();
    }

    /// How many clients each has found.
    pub(crate) fn audience(&self) -> [usize; 2] {
        [&self.record, &self.mark].map(|of| of.client_count().unwrap_or_default())
    }
}

impl Trigger {
    fn serve(&mut self) {
        let when = self.switch.when();
        if self.heard.as_ref().map(|heard| &heard.when) != when.as_ref() {
            self.heard = None;
            let heard = when.map_or(Ok(None), |when| self.hear(when));
            match heard {
                Ok(heard) => self.heard = heard,
                Err(why) if why == self.said => {}
                Err(why) => {
                    tracing::error!("record_when: {why}");
                    self.said = why;
                }
            }
        }
        let Some(Heard { when, number, subscription, message }) = &mut self.heard else { return };
        while let Ok(Some(_)) = subscription.take(message) {
            match number.is_set(message) {
                Ok(is_set) => self.switch.turn(is_set),
                Err(why) => tracing::warn!("record_when: a message of {}: {why}", when.topic()),
            }
        }
    }

    /// Subscribes to the topic, if it has a publisher: that says its type.
    fn hear(&self, when: EpisodeTopic) -> Result<Option<Heard>, String> {
        let failed = |error: robocache_rcl::RclError| error.to_string();
        let publishers = self.node.publishers_of(when.topic()).map_err(failed)?;
        let Some(first) = publishers.first() else { return Ok(None) };
        let number = when.number(&first.ros_type, &Prefixes::of_environment());
        let number = number.map_err(|why| format!("{when}: {why}"))?;
        let qos = match publishers.iter().all(|of| of.reliable) {
            true => Qos::reliable(DEPTH),
            false => Qos::best_effort(DEPTH),
        };
        let subscription = self.node.subscribe(when.topic(), &first.ros_type, qos);
        let mut subscription = subscription.map_err(failed)?;
        subscription.tell(&self.wake).map_err(failed)?;
        tracing::info!("episodes begin and end with {when}");
        Ok(Some(Heard { when, number, subscription, message: SerializedMessage::default() }))
    }
}

/// The members of an answer.
fn parts(done: Done) -> (bool, String, String) {
    match done {
        Ok((message, folder)) => (true, message, folder),
        Err(why) => (false, why, String::new()),
    }
}

fn read_record(request: &[u8]) -> Result<(bool, String, String), CdrError> {
    let mut reader = Reader::new(request)?;
    Ok((reader.u8()? != 0, text(&mut reader)?, text(&mut reader)?))
}

fn read_mark(request: &[u8]) -> Result<(String, String), CdrError> {
    let mut reader = Reader::new(request)?;
    Ok((text(&mut reader)?, text(&mut reader)?))
}

fn text(reader: &mut Reader<'_>) -> Result<String, CdrError> {
    Ok(String::from_utf8_lossy(reader.string_bytes()?).into_owned())
}
