//! How a recorded node ran: a metadata record at the start of each file of its recording.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use mcap::records::{Metadata, Record, op};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};

use crate::bag::by_number;
use robocache_core::config::{self, ConfigError};
use robocache_core::layout::{Layout, Segment};
use robocache_core::schema::Definitions;
use robocache_core::spec::Config;
use robocache_ops::time::Stamp;

/// The name of the metadata record.
const NAME: &str = "robocache_recording";
/// Largest record that is read on the way to it \[bytes\].
const MOST_BYTES: usize = 1 << 30;
/// Begins of the keys of parameters, of files, and of the names of topics. Once statistics were the only files.
const PARAMETER: &str = "parameter ";
const FILE: &str = "statistics ";
const TOPIC: &str = "topic ";
/// The keys of an episode.
const EPISODE: [&str; 3] = ["episode", "episode_task", "episode_begins_ns"];
/// The keys of a begin whose messages before were deleted, and of the streams that are recorded.
const BEGINS: &str = "begins_ns";
const STREAMS: &str = "record_streams";

/// All that influences the tensors beside the messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Of the program.
    pub version: String,
    /// The name of the configuration's file.
    pub config_file: String,
    /// Its text.
    pub configuration: String,
    /// The rate that replaced the configuration's \[Hz\].
    pub rate_hz: Option<f64>,
    /// True if a simulator had the node's clock.
    pub simulated: bool,
    /// True if the tensors have digests.
    pub digest: bool,
    /// Backend that computed them.
    pub backend: String,
    /// The files that the configuration names, each with its text.
    pub files: Vec<(String, String)>,
    /// The full names of the topics of the inputs, by their numbers.
    pub topics: Vec<String>,
    /// All parameters of the node, in words.
    pub parameters: Vec<(String, String)>,
    /// The full name of the topic of chunks; `None` if the node makes no commands.
    pub chunks: Option<String>,
    /// The run of the node, which its tensors name; 0 if it is unknown.
    pub run: u64,
    /// Facts of the recording's episode; `None` if it is of a whole run.
    pub episode: Option<EpisodeFacts>,
    /// When the recording begins, on the system's clock, if what was before is deleted. What comes before it in the log fills
    /// the rings.
    pub begins: Option<Stamp>,
    /// The names of the streams that are recorded; `None` for all.
    pub streams: Option<Vec<String>>,
}

/// An episode that was recorded between two requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpisodeFacts {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Task of the robot, in words; empty if nobody said so.
    pub task: String,
    /// When it begins, on the system's clock. What comes before it in the log fills the rings.
    pub begins: Stamp,
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path is not a recording.
    #[error("{}: expected a recording of fusion_node (its parameter record_to), found {found}", path.display())]
    None {
        /// The path that was opened.
        path: PathBuf,
        /// Description of what it is instead.
        found: &'static str,
    },
    /// A value of it is wrong.
    #[error("{}: {key}: expected {expected}, found '{found}'", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The value's key.
        key: &'static str,
        /// Expected content.
        expected: &'static str,
        /// Content that was found.
        found: String,
    },
}

impl Manifest {
    /// The manifest of a node that runs this configuration; without topics and parameters.
    pub fn of(config: &Config, simulated: bool, digest: bool, backend: &str) -> Self {
        let topic = |input: &robocache_core::spec::InputSpec| match input.topic.starts_with('/') {
            true => input.topic.clone(),
            false => format!("/{}", input.topic),
        };
        Manifest {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config_file: config.source.file.clone(),
            configuration: config.source.text.clone(),
            rate_hz: Some(config.rate_hz),
            simulated,
            digest,
            backend: backend.to_owned(),
            files: config.source.files.clone(),
            topics: config.inputs.iter().map(topic).collect(),
            parameters: Vec::new(),
            chunks: None,
            run: 0,
            episode: None,
            begins: None,
            streams: None,
        }
    }

    /// When the recording begins, on the system's clock, if there was something before. What comes before it in the log fills
    /// the rings.
    pub fn leads_until(&self) -> Option<Stamp> {
        self.episode.as_ref().map(|episode| episode.begins).or(self.begins)
    }

    /// True if a stream of this name is recorded.
    pub fn has_stream(&self, name: &str) -> bool {
        self.streams.as_ref().is_none_or(|streams| streams.iter().any(|known| known == name))
    }

    /// The names of the streams that are not recorded.
    pub fn missing_streams(&self, config: &Config) -> Vec<String> {
        let names = config.streams.iter().map(|stream| &stream.name);
        names.filter(|name| !self.has_stream(name)).cloned().collect()
    }

    /// Notes for a reader of the recording, in words: the parts of the run that it lacks.
    pub fn notes(&self) -> Vec<String> {
        let begins = self.begins.map(|begins| {
            let begins = begins.nanos() as f64 / 1e9;
            format!("the recording begins at {begins:.3} s: its first files were deleted, because it reached its limit")
        });
        let streams = self.streams.as_ref().map(|streams| {
            let streams = streams.join(", ");
            format!("the recording has these streams alone: {streams} (record_streams)")
        });
        begins.into_iter().chain(streams).collect()
    }

    /// By input: true if it is recorded. Transforms are of all streams.
    pub(super) fn recorded_inputs(&self, config: &Config) -> Vec<bool> {
        let of_stream = |stream| self.has_stream(&config.stream(stream).name);
        config.inputs.iter().map(|input| input.stream.is_none_or(of_stream)).collect()
    }

    /// By segment: true if its stream is recorded; `None` if all are. The digests of ticks are of these segments.
    pub fn recorded_segments(&self, config: &Config, layout: &Layout) -> Option<Vec<bool>> {
        self.streams.as_ref()?;
        let of = |segment: &Segment| self.has_stream(&config.stream(segment.stream).name);
        Some(layout.segments().iter().map(of).collect())
    }

    /// The configuration without demands of streams that are not recorded: they hold no tick back.
    pub fn without_missing(&self, mut config: Config) -> Config {
        for stream in &mut config.streams {
            stream.required &= self.has_stream(&stream.name);
        }
        config
    }

    /// As a record of MCAP.
    pub(super) fn record(&self) -> Metadata {
        let mut metadata = BTreeMap::from([
            ("version".to_owned(), self.version.clone()),
            ("config_file".to_owned(), self.config_file.clone()),
            ("configuration".to_owned(), self.configuration.clone()),
            ("use_sim_time".to_owned(), self.simulated.to_string()),
            ("digest".to_owned(), self.digest.to_string()),
            ("backend".to_owned(), self.backend.clone()),
        ]);
        metadata.extend(self.chunks.clone().map(|topic| ("chunks".to_owned(), topic)));
        metadata.extend((self.run != 0).then(|| ("run".to_owned(), self.run.to_string())));
        if let Some(EpisodeFacts { name, task, begins }) = &self.episode {
            let values = [name.clone(), task.clone(), begins.nanos().to_string()];
            metadata.extend(EPISODE.map(str::to_owned).into_iter().zip(values));
        }
        let begins = self.begins.map(|begins| (BEGINS.to_owned(), begins.nanos().to_string()));
        metadata.extend(begins);
        let streams = self.streams.iter().map(|names| serde_json::Value::from(names.clone()));
        metadata.extend(streams.map(|names| (STREAMS.to_owned(), names.to_string())));
        metadata.extend(self.rate_hz.map(|rate| ("rate_hz".to_owned(), rate.to_string())));
        let named = |what: &'static str| {
            move |(name, text): &(String, String)| (format!("{what}{name}"), text.clone())
        };
        metadata.extend(self.files.iter().map(named(FILE)));
        metadata.extend(self.parameters.iter().map(named(PARAMETER)));
        let topics = self.topics.iter().enumerate();
        metadata.extend(topics.map(|(at, topic)| (format!("{TOPIC}{at}"), topic.clone())));
        Metadata { name: NAME.to_owned(), metadata }
    }

    /// Reads the manifest of a recording: its folder, or one of its files.
    ///
    /// # Errors
    /// [`ManifestError`]
    pub fn read(recording: &Path) -> Result<Self, ManifestError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| ManifestError::Io { path, source }
        };
        let none = |found| ManifestError::None { path: recording.to_owned(), found };
        let is_file = recording.metadata().map_err(io(recording))?.is_file();
        let mut files = vec![recording.to_owned()];
        if !is_file {
            let listed = fs::read_dir(recording).map_err(io(recording))?;
            files = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "mcap"));
        // The oldest one says how the recording begins.
        let file =
            files.iter().min_by(|a, b| by_number(&a.to_string_lossy(), &b.to_string_lossy()));
        let file = file.ok_or_else(|| none("no .mcap file"))?;
        let found = find(&mut File::open(file).map_err(io(file))?).map_err(io(file))?;
        Self::from_record(file, found.ok_or_else(|| none("another bag"))?)
    }

    fn from_record(path: &Path, record: Metadata) -> Result<Self, ManifestError> {
        let mut values = record.metadata;
        let wrong = |key, expected, found: &str| ManifestError::Value {
            path: path.to_owned(),
            key,
            expected,
            found: found.to_owned(),
        };
        let mut text =
            |key: &'static str| values.remove(key).ok_or_else(|| wrong(key, "a value", "nothing"));
        let yes = |key: &'static str, text: String| {
            text.parse::<bool>().map_err(|_| wrong(key, "true or false", &text))
        };
        let mut manifest = Manifest {
            version: text("version")?,
            config_file: text("config_file")?,
            configuration: text("configuration")?,
            simulated: yes("use_sim_time", text("use_sim_time")?)?,
            digest: yes("digest", text("digest")?)?,
            backend: text("backend")?,
            ..Manifest::default()
        };
        if let Some(rate) = values.remove("rate_hz") {
            let parsed = rate.parse().map_err(|_| wrong("rate_hz", "a number", &rate))?;
            manifest.rate_hz = Some(parsed);
        }
        manifest.chunks = values.remove("chunks");
        if let Some(run) = values.remove("run") {
            manifest.run = run.parse().map_err(|_| wrong("run", "a number", &run))?;
        }
        if let [Some(name), Some(task), Some(begins)] = EPISODE.map(|key| values.remove(key)) {
            let parsed = begins.parse().map_err(|_| wrong(EPISODE[2], "nanoseconds", &begins))?;
            manifest.episode = Some(EpisodeFacts { name, task, begins: Stamp::from_nanos(parsed) });
        }
        if let Some(begins) = values.remove(BEGINS) {
            let parsed = begins.parse().map_err(|_| wrong(BEGINS, "nanoseconds", &begins))?;
            manifest.begins = Some(Stamp::from_nanos(parsed));
        }
        if let Some(names) = values.remove(STREAMS) {
            let parsed = serde_json::from_str(&names);
            manifest.streams = Some(parsed.map_err(|_| wrong(STREAMS, "a list", &names))?);
        }
        let mut topics = BTreeMap::new();
        for (key, value) in values {
            if let Some(file) = key.strip_prefix(FILE) {
                manifest.files.push((file.to_owned(), value));
            } else if let Some(name) = key.strip_prefix(PARAMETER) {
                manifest.parameters.push((name.to_owned(), value));
            } else if let Some(Ok(input)) = key.strip_prefix(TOPIC).map(str::parse::<usize>) {
                topics.insert(input, value);
            }
        }
        manifest.topics = topics.into_values().collect();
        Ok(manifest)
    }

    /// The configuration as the node understood it. `definitions` are those of the messages.
    ///
    /// # Errors
    /// As for [`config::parse`], if this program understands it otherwise.
    pub fn config(&self, definitions: &dyn Definitions) -> Result<Config, ConfigError> {
        let recorded = Recorded { manifest: self, definitions };
        config::parse_at_rate(&self.configuration, &self.config_file, self.rate_hz, &recorded)
    }
}

/// The files of a recording in place of those of the disk.
struct Recorded<'a> {
    manifest: &'a Manifest,
    definitions: &'a dyn Definitions,
}

impl Definitions for Recorded<'_> {
    fn find(&self, name: &str) -> Result<String, String> {
        self.definitions.find(name)
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        let file = path.display().to_string();
        let known = self.manifest.files.iter().find(|(known, _)| *known == file);
        known.map(|(_, text)| text.clone()).ok_or_else(|| format!("{file}: not in the recording"))
    }
}

/// Finds the metadata record in front of the messages.
fn find(file: &mut File) -> std::io::Result<Option<Metadata>> {
    let options = LinearReaderOptions::default().with_record_length_limit(MOST_BYTES);
    let mut reader = LinearReader::new_with_options(options);
    while let Some(event) = reader.next_event() {
        match event.map_err(std::io::Error::other)? {
            LinearReadEvent::ReadRequest(need) => {
                let got = file.read(reader.insert(need))?;
                reader.notify_read(got);
            }
            LinearReadEvent::Record { opcode: op::MESSAGE, .. } => return Ok(None),
            LinearReadEvent::Record { opcode, data } if opcode == op::METADATA => {
                match mcap::parse_record(opcode, data).map_err(std::io::Error::other)? {
                    Record::Metadata(metadata) if metadata.name == NAME => {
                        return Ok(Some(metadata));
                    }
                    _ => {}
                }
            }
            LinearReadEvent::Record { .. } => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
