//! Log lines on the console, in the format of ROS's own nodes.
//!
//! `RCUTILS_CONSOLE_OUTPUT_FORMAT` sets the format and `RCUTILS_COLORIZED_OUTPUT` the colours, as
//! for every ROS node. Source: "Logging and logger configuration" of the ROS 2 documentation.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use time::{OffsetDateTime, UtcOffset};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::args::NODE_NAME;
use robocache_ops::time::NANOS_PER_S;
use robocache_runtime::TimeSource;

/// The format without the variable.
const FORMAT: &str = "[{severity}] [{time}] [{name}]: {message}";
/// The variable with the format.
const FORMAT_VARIABLE: &str = "RCUTILS_CONSOLE_OUTPUT_FORMAT";
/// The variable that turns colours on (1) or off (0).
const COLOR_VARIABLE: &str = "RCUTILS_COLORIZED_OUTPUT";

/// The name of the node's logger, when it is known.
static LOGGER: OnceLock<String> = OnceLock::new();

/// Names the logger of all later lines. Only the first call counts.
pub(crate) fn name_logger(name: String) {
    // A second node in the process logs under the name of the first.
    let _ = LOGGER.set(name);
}

/// Formats log lines.
#[derive(Debug)]
pub struct Console {
    parts: Vec<FormatPart>,
    colors: bool,
    offset: UtcOffset,
    time: TimeSource,
}

/// A part of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatPart {
    Text(String),
    Severity,
    Name,
    Message,
    Function,
    File,
    Line,
    /// Seconds since 1970 with nine decimals.
    Time,
    /// Nanoseconds since 1970.
    Nanoseconds,
    /// Local date and time with milliseconds.
    DateTime,
}

impl Console {
    /// Makes the format that the environment asks for. `terminal` says whether a terminal shows the
    /// lines, so that they have colours. The process may have no other thread, because the offset
    /// of the local time cannot be read then; without it, dates are in UTC.
    pub fn from_env(terminal: bool, time: TimeSource) -> Self {
        let format = std::env::var(FORMAT_VARIABLE).ok().filter(|format| !format.is_empty());
        let colors = match std::env::var(COLOR_VARIABLE).as_deref() {
            Ok("1") => true,
            Ok("0") => false,
            _ => terminal,
        };
        let offset = UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC);
        Console { parts: parse(format.as_deref().unwrap_or(FORMAT)), colors, offset, time }
    }

    fn line(&self, out: &mut impl fmt::Write, meta: &Metadata<'_>, message: &str) -> fmt::Result {
        let nanos = self.time.system().nanos();
        for part in &self.parts {
            match part {
                FormatPart::Text(text) => out.write_str(text)?,
                FormatPart::Severity => out.write_str(severity(*meta.level()).0)?,
                FormatPart::Name => {
                    out.write_str(LOGGER.get().map_or(NODE_NAME, String::as_str))?;
                }
                FormatPart::Message => out.write_str(message)?,
                FormatPart::Function => out.write_str(meta.target())?,
                FormatPart::File => out.write_str(meta.file().unwrap_or_default())?,
                FormatPart::Line => write!(out, "{}", meta.line().unwrap_or_default())?,
                FormatPart::Time => {
                    write!(out, "{}.{:09}", nanos / NANOS_PER_S, nanos % NANOS_PER_S)?;
                }
                FormatPart::Nanoseconds => write!(out, "{nanos}")?,
                FormatPart::DateTime => {
                    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(nanos))
                        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
                        .to_offset(self.offset);
                    let date = at.date();
                    let time = at.time();
                    let (h, m, s, ms) = time.as_hms_milli();
                    write!(out, "{date} {h:02}:{m:02}:{s:02}.{ms:03}")?;
                }
            }
        }
        Ok(())
    }
}

/// Splits a format into its parts. An unknown token stays as it is.
fn parse(format: &str) -> Vec<FormatPart> {
    let mut parts = Vec::new();
    let text = |parts: &mut Vec<FormatPart>, more: &str| match parts.last_mut() {
        Some(FormatPart::Text(text)) => text.push_str(more),
        _ => parts.push(FormatPart::Text(more.to_owned())),
    };
    let mut rest = format;
    while let Some(open) = rest.find(['{', '\\']) {
        text(&mut parts, &rest[..open]);
        rest = &rest[open..];
        let (part, len) = match (token(rest), escape(rest)) {
            (Some((part, len)), _) => (part, len),
            (None, Some(escaped)) => (FormatPart::Text(escaped.to_owned()), 2),
            (None, None) => (FormatPart::Text(rest[..1].to_owned()), 1),
        };
        match part {
            FormatPart::Text(more) => text(&mut parts, &more),
            part => parts.push(part),
        }
        rest = &rest[len..];
    }
    text(&mut parts, rest);
    parts.retain(|part| !matches!(part, FormatPart::Text(text) if text.is_empty()));
    parts
}

/// The token at the start of `format`, and its length.
fn token(format: &str) -> Option<(FormatPart, usize)> {
    let (name, _) = format.strip_prefix('{')?.split_once('}')?;
    let part = match name {
        "severity" => FormatPart::Severity,
        "name" => FormatPart::Name,
        "message" => FormatPart::Message,
        "function_name" => FormatPart::Function,
        "file_name" => FormatPart::File,
        "line_number" => FormatPart::Line,
        "time" => FormatPart::Time,
        "time_as_nanoseconds" => FormatPart::Nanoseconds,
        "date_time_with_ms" => FormatPart::DateTime,
        _ => return None,
    };
    Some((part, name.len() + 2))
}

/// The character that an escape sequence at the start of `format` means.
fn escape(format: &str) -> Option<&'static str> {
    Some(match format.get(..2)? {
        "\\n" => "\n",
        "\\t" => "\t",
        "\\r" => "\r",
        "\\\\" => "\\",
        "\\\"" => "\"",
        "\\'" => "'",
        _ => return None,
    })
}

/// The name of a level and its colour, an escape sequence of terminals.
fn severity(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::ERROR => ("ERROR", "\x1b[31m"),
        Level::WARN => ("WARN", "\x1b[33m"),
        Level::INFO => ("INFO", ""),
        Level::DEBUG | Level::TRACE => ("DEBUG", "\x1b[32m"),
    }
}

impl<S, N> FormatEvent<S, N> for Console
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let color = if self.colors { severity(*meta.level()).1 } else { "" };
        writer.write_str(color)?;
        self.line(&mut writer, meta, &text.message)?;
        writeln!(writer, "{}", if color.is_empty() { "" } else { "\x1b[0m" })
    }
}

/// An event's message, with its other fields after it.
#[derive(Default)]
pub(crate) struct Text {
    /// The text.
    pub message: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name if name.starts_with("log.") => Ok(()),
            name => write!(self.message, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests;
