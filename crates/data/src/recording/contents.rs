//! Contents of a recording: its folder, its topics and their definitions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::compression::ChunkCompression;
use super::event::{EVENT_DEFINITION, EVENT_TYPE};
use super::file::{RecordedTopic, RecordingContents, first_of, topics_of};
use super::manifest::Manifest;
use super::recorder::RecordError;
use crate::commands::CHUNK_TYPE;
use robocache_core::schema::{self, Definitions};
use robocache_core::spec::{Config, InputId};
use robocache_ops::time::Stamp;

/// The topic of a simulator's clock.
const CLOCK_TOPIC: &str = "/clock";
const CLOCK_TYPE: &str = "rosgraph_msgs/msg/Clock";
/// Rules of a recording's files.
pub(super) struct FileRules {
    /// The topic of the events.
    pub(super) events: String,
    pub(super) split_bytes: u64,
    pub(super) compression: ChunkCompression,
}

/// Contents of the files.
pub(super) fn contents(
    folder: &Path,
    manifest: Manifest,
    rules: FileRules,
    config: &Config,
    definitions: &dyn Definitions,
) -> RecordingContents {
    let FileRules { events, split_bytes, compression } = rules;
    let recorded = manifest.recorded_inputs(config);
    let (names, topic_of) = topics_of(&manifest.topics, &recorded);
    let is_compressed = compression.is_worthwhile(config, &recorded);
    let definition = |ros_type: &str| {
        schema::full_text(ros_type, definitions).unwrap_or_else(|error| {
            tracing::warn!("recording: {error}; its messages are recorded without it");
            String::new()
        })
    };
    let topic = |(at, name): (usize, String)| {
        let spec = config.input(first_of(&topic_of, at).unwrap_or(InputId::new(0)));
        RecordedTopic {
            name,
            ros_type: spec.ros_type.clone(),
            definition: definition(&spec.ros_type),
            latched: spec.feeds_fixed_tree() || spec.is_calibration(),
            shared: topic_of.iter().filter(|of| **of == Some(at)).count() > 1,
        }
    };
    let topics = names.into_iter().enumerate().map(topic).collect();
    let clock = manifest.simulated.then(|| RecordedTopic {
        name: CLOCK_TOPIC.into(),
        ros_type: CLOCK_TYPE.into(),
        definition: definition(CLOCK_TYPE),
        latched: false,
        shared: false,
    });
    let chunks = manifest.chunks.clone().map(|name| RecordedTopic {
        name,
        ros_type: CHUNK_TYPE.into(),
        definition: definition(CHUNK_TYPE),
        latched: false,
        shared: false,
    });
    let events = RecordedTopic {
        name: events,
        ros_type: EVENT_TYPE.into(),
        definition: EVENT_DEFINITION.into(),
        latched: false,
        shared: false,
    };
    let folder = folder.to_owned();
    RecordingContents {
        folder,
        manifest,
        topics,
        topic_of,
        events,
        clock,
        chunks,
        split_bytes,
        is_compressed,
    }
}

/// Creates a folder of this name in `folder`; without a name, it is named for the time `now` (UTC). One that exists is left
/// alone.
pub(super) fn new_folder(
    folder: &Path,
    name: Option<&str>,
    now: Stamp,
) -> Result<PathBuf, RecordError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RecordError { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let now = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(now.nanos()))
        .unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let by_time = format!(
        "robocache_{:04}_{:02}_{:02}-{:02}_{:02}_{:02}",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute(),
        now.second()
    );
    let name = name.unwrap_or(&by_time);
    for number in 1.. {
        let own = match number {
            1 => folder.join(name),
            _ => folder.join(format!("{name}-{number}")),
        };
        match fs::create_dir(&own) {
            Ok(()) => return Ok(own),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&own)(error)),
        }
    }
    Err(failed(folder)(io::Error::other("no name is free")))
}
