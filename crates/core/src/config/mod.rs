//! The configuration: one annotated YAML file, the same for live and replay.
//!
//! A file becomes a [`Config`] in three steps. Their problems are reported together, in the order of
//! the file. If the file is no YAML mapping at all, that alone is reported.
//!
//! 1. `node`, `defaults`, `document`: the events of yaml-rust2 become a tree. Aliases, merge keys and
//!    `defaults` are filled in, and each value keeps the line where it is written.
//! 2. `raw`, `read`: the tree becomes typed values. What cannot be read is reported and left out.
//! 3. `check`, `stream` and one file per kind of stream: the checks turn the values into specs.

// A problem ends the program, so the size of the error costs nothing.
#![allow(clippy::result_large_err)]

mod check;
mod cloud;
mod command_contract;
mod command_group;
mod command_limits;
mod command_output;
mod command_reference;
mod command_rows;
mod command_start;
mod commands;
mod defaults;
mod depth;
pub mod describe;
mod deskew;
mod document;
mod error;
mod filter;
mod frames;
mod image;
mod input;
mod keys;
mod lanes;
mod limits_files;
mod map;
mod mapping;
mod message;
pub mod node;
mod occupancy;
mod operators;
mod presets;
mod raw;
mod read;
mod select;
mod stream;
mod topics;
mod transform;
mod undistort;
mod vector;
mod words;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use error::{ConfigError, Problem};
#[doc(hidden)]
pub use frames::FRAMED;
pub use words::{nearest, suggestion};

use check::{Check, Range};
use document::Document;
use mapping::AllKeys;
use raw::RawConfig;
use read::Read;
use stream::Defaults;
use undistort::CameraTopic;

use crate::schema::{Definitions, Prefixes};
use crate::spec::{Config, InputSpec, Source, StreamId, StreamSpec};
use robocache_ops::dtype::DType;
use robocache_ops::packing::ALIGNMENT;
use robocache_ops::time::TickGrid;

/// Greatest size of a tick's tensor \[bytes\]. A ROS message carries at most 4 GiB; a tensor of
/// even this size cannot be published at any useful rate.
const MAX_TENSOR_BYTES: usize = 1 << 30;

/// Reads and validates a configuration file.
///
/// # Errors
/// [`ConfigError::Read`] if the file cannot be read; otherwise the problems of its content, each
/// with file, line, key, what was expected and what was found.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    load_at_rate(path, None)
}

/// As [`load`], but if `rate_hz` \[Hz\] is given, it replaces the file's rate of the ticks. The
/// checks use the new rate.
///
/// # Errors
/// As for [`load`].
pub fn load_at_rate(path: &Path, rate_hz: Option<f64>) -> Result<Config, ConfigError> {
    let definitions = Prefixes::of_environment();
    parse_at_rate(&read(path)?, &path.display().to_string(), rate_hz, &definitions)
}

/// Reads the text of a configuration.
///
/// # Errors
/// As for [`load`], if it cannot be read or is no text.
pub fn read(path: &Path) -> Result<String, ConfigError> {
    let file = path.display().to_string();
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(ConfigError::Read { file, source }),
    };
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = bytes[..valid].split(|byte| *byte == b'\n').count();
        let found = format!("the byte {:#04x}", bytes[valid]);
        ConfigError::Invalid(vec![Problem::of_file(&file, line, "UTF-8 text", found)])
    })
}

/// Validates the text of a configuration. Errors call the file `file_name`.
///
/// # Errors
/// [`ConfigError::Invalid`], as for [`load`].
pub fn parse(text: &str, file_name: &str) -> Result<Config, ConfigError> {
    parse_with(text, file_name, &Prefixes::default())
}

/// As [`parse`], with the definitions of messages that streams with `select` need. [`load`] finds
/// them in the prefixes of ROS ([`Prefixes`]).
///
/// # Errors
/// As for [`parse`].
pub fn parse_with(
    text: &str,
    file_name: &str,
    definitions: &dyn Definitions,
) -> Result<Config, ConfigError> {
    parse_at_rate(text, file_name, None, definitions)
}

/// As [`parse_with`], with another rate of the ticks if it is given, as [`load_at_rate`].
///
/// # Errors
/// As for [`parse`].
pub fn parse_at_rate(
    text: &str,
    file_name: &str,
    rate_hz: Option<f64>,
    definitions: &dyn Definitions,
) -> Result<Config, ConfigError> {
    let mut doc =
        Document::read(text, file_name).map_err(|problem| ConfigError::Invalid(vec![problem]))?;
    let problems = doc.take_problems();
    let mut check = Check::new(&doc, definitions, problems);
    let raw = RawConfig::read(&mut check, "", &doc.root());
    let mut config = raw.and_then(|mut raw| {
        raw.rate_hz = rate_hz.or(raw.rate_hz);
        config(&mut check, raw)
    });
    if let Some(config) = &mut config {
        let without_effect = check.take_without_effect();
        let files = check.take_files();
        config.source = Source {
            file: file_name.to_owned(),
            text: text.to_owned(),
            without_effect,
            advice: check.take_advice(),
            files,
        };
    }
    check.finish(config).map_err(ConfigError::Invalid)
}

/// All keys that a configuration may have, by their paths without the names of streams: `streams.image.crop.width`. Of a
/// mapping that several keys have, the keys are listed once. Tests compare them with what contracts have.
#[doc(hidden)]
pub fn all_keys() -> Vec<String> {
    let mut all = AllKeys::default();
    RawConfig::keys("", &mut all);
    all.paths
}

/// All but the source.
fn config(check: &mut Check<'_>, raw: RawConfig) -> Option<Config> {
    let rate_hz = check
        .required("rate_hz", raw.rate_hz, "the rate of the ticks, a number from 0.1 to 2000")
        .and_then(|hz| check.number("rate_hz", hz, Range::from(0.1, 2000.0)));
    let lag_ns = check.nanos("lag_ms", raw.lag_ms.unwrap_or(0.0), Range::NON_NEGATIVE_MS);
    let base_frame = raw.base_frame.unwrap_or_else(|| "base_link".into());
    let base_frame = check.frame_id("base_frame", base_frame);
    let output = raw.output.unwrap_or_default();
    let output_topic = output.topic.unwrap_or_else(|| "fused_tensor".into());
    let output_topic = check.topic("output.topic", output_topic);
    let grid = rate_hz.and_then(TickGrid::from_rate_hz);
    let defaults = Defaults {
        dtype: output.dtype.unwrap_or(DType::F32),
        lag_ns: lag_ns.unwrap_or(0),
        timeline: raw.timeline.unwrap_or_default(),
        period_ns: grid.map_or(0, TickGrid::period_ns),
        base_frame: base_frame.clone().unwrap_or_default(),
    };
    let streams = check
        .required("streams", raw.streams, "a mapping from stream names to streams")
        .and_then(|raw| streams(check, raw.0, &defaults));
    let tf = frames::tf(check, raw.tf);
    let known = streams.as_ref().map(|(streams, ..)| &streams[..]);
    let commands = raw.commands.map(|raw| commands::commands(check, raw, known));
    let (streams, mut inputs, cameras) = streams?;
    tensor_fits(check, &streams)?;
    lag_ns?;
    let (tf, transforms) = tf?.of(check, &inputs, &streams);
    inputs.extend(transforms);
    // Last: the others keep their numbers if a stream begins to undistort.
    inputs.extend(undistort::inputs(cameras));
    topics::have_one_type(check, &inputs);
    let output_topic = output_topic?;
    let commands = match commands {
        Some(commands) => Some(commands?),
        None => None,
    };
    topics::take_no_commands(check, commands.as_ref(), &inputs, &output_topic);
    let config = Config {
        rate_hz: rate_hz?,
        grid: grid?,
        base_frame: base_frame?,
        output_topic,
        tf,
        inputs,
        streams,
        commands,
        source: Source::default(),
    };
    command_reference::check_references(check, &config);
    Some(config)
}

/// Checks that the tensor of a tick is small enough to be published.
fn tensor_fits(check: &mut Check<'_>, streams: &[StreamSpec]) -> Option<()> {
    let bytes = |spec: &StreamSpec| {
        let step = spec.encoder.row_len() * spec.dtype.size();
        let coordinates = (spec.encoder.elements() - spec.encoder.row_len()) * size_of::<i32>();
        let segment = |step: usize| (spec.steps() * step).next_multiple_of(ALIGNMENT);
        segment(step) + segment(coordinates)
    };
    let bytes: usize = streams.iter().map(bytes).sum();
    if bytes > MAX_TENSOR_BYTES {
        let expected = format!("streams of at most {MAX_TENSOR_BYTES} bytes per tick in all");
        check.fail_found("streams", expected, format!("{bytes} bytes"));
        return None;
    }
    Some(())
}

/// The streams of a file, with their inputs and their cameras.
type Streams = (Vec<StreamSpec>, Vec<InputSpec>, Vec<(StreamId, String, CameraTopic)>);

/// The streams, their inputs, and the cameras whose images they undistort.
fn streams(
    check: &mut Check<'_>,
    raw: Vec<(String, raw::RawStream)>,
    defaults: &Defaults,
) -> Option<Streams> {
    if raw.is_empty() {
        check.fail("streams", "at least one stream");
        return None;
    }
    // Checks every stream before it stops, so that all problems are reported together.
    let made: Vec<_> =
        raw.into_iter().map(|(name, raw)| stream::stream(check, name, raw, defaults)).collect();
    let made: Option<Vec<stream::StreamAndInputs>> = made.into_iter().collect();
    let mut streams = Vec::new();
    let mut inputs = Vec::new();
    let mut rings = 0;
    let mut cameras = Vec::new();
    for stream::StreamAndInputs { stream, inputs: fed_by, camera } in made? {
        let id = StreamId::new(streams.len());
        cameras.extend(camera.map(|camera| (id, stream.name.clone(), camera)));
        inputs.extend(fed_by.into_iter().map(|input| input.feeding(id, rings)));
        rings += stream.encoder.rings();
        streams.push(stream);
    }
    Some((streams, inputs, cameras))
}
