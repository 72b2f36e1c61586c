//! Episodes: bags, or parts of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::bag::{Bag, BagError, Storage};
use crate::recording::Mark;
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// A bag, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    /// The bag, or what stands for it: see `given`.
    pub bag: PathBuf,
    /// Source that it is read from, if that is no bag of rosbag2.
    pub given: Option<Given>,
    /// The name of its result, without an extension; no other episode has it.
    pub name: String,
    /// The first instant; `None` for that of the first message. A latched message from before it (a fixed
    /// transform, a camera's numbers) still counts.
    pub start: Option<Moment>,
    /// The last instant; `None` for that of the last message.
    pub end: Option<Moment>,
    /// Task of the robot, in words.
    pub task: Option<String>,
    /// The begin of the recorded episode, on the recorder's clock: what comes before fills the rings. `None` for any other bag.
    pub begins: Option<Stamp>,
    /// Marks that were noted while it was recorded.
    pub marks: Vec<Mark>,
    /// Why it cannot be played, if that is known already: for example, its bag has no edge.
    pub wrong: Option<String>,
}

/// An episode that is not in a bag of rosbag2, such as one of a dataset.
pub trait Source: Send + Sync {
    /// Opens it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn open(&self) -> Result<Box<dyn Storage>, BagError>;

    /// A text that differs if the messages may differ.
    fn made_of(&self) -> String;

    /// The way in which the source made the numbers of a topic, in words, such as the pixels of a video: pairs of a
    /// topic and the words. A contract has them.
    fn decoded(&self) -> Vec<(String, String)>;

    /// Notes of the results on the episode beside its name and its bag: a JSON object. It is asked for when the messages
    /// were read. Of its keys, `task` takes the place of that of the [`Episode`].
    ///
    /// # Errors
    /// If the episode is damaged.
    fn about(&self) -> Result<Map<String, Value>, BagError>;
}

/// A [`Source`] that episodes share.
#[derive(Clone)]
pub struct Given(pub Arc<dyn Source>);

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Given").field(&self.0.made_of()).finish()
    }
}

impl PartialEq for Given {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Given {}

impl Episode {
    /// Opens what the episode is read from.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(&self) -> Result<Bag, BagError> {
        match &self.given {
            None => Bag::open(&self.bag),
            Some(Given(source)) => Ok(Bag::of(self.bag.clone(), source.open()?)),
        }
    }

    /// As of [`Source::decoded`]. A bag has nothing to say.
    pub(super) fn decoded(&self) -> Vec<(String, String)> {
        self.given.as_ref().map(|Given(source)| source.decoded()).unwrap_or_default()
    }

    /// As of [`Source::about`]. A bag has its marks.
    ///
    /// # Errors
    /// If the episode is damaged.
    pub(super) fn about(&self) -> Result<Map<String, Value>, BagError> {
        match &self.given {
            None if self.marks.is_empty() => Ok(Map::new()),
            None => Ok(Map::from_iter([("marks".to_owned(), serde_json::json!(self.marks))])),
            Some(Given(source)) => source.about(),
        }
    }
}

/// Why a list of episodes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpisodesError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is wrong.
    #[error("{}:{line}: expected {expected}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Expected content.
        expected: &'static str,
        /// Content that was found.
        found: String,
    },
}

/// A time in a list: seconds since the start of the bag, or an instant if it is that large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Since the first message of the bag \[ns\].
    AfterStart(i64),
    /// On the recorder's clock.
    At(Stamp),
}

/// Seconds from here on are since 1970 rather than since the start of a bag: no bag is 30 years long.
const SINCE_1970_S: i64 = 1_000_000_000;

impl std::str::FromStr for Moment {
    type Err = String;

    /// Reads seconds with up to nine decimals; no digit is lost in a float.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected seconds such as 12.5 or 1795000000.25, found '{text}'");
        let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 {
            return Err(wrong());
        }
        let seconds: i64 = whole.parse().map_err(|_| wrong())?;
        let nanos: i64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
        let all = seconds.checked_mul(NANOS_PER_S).and_then(|all| all.checked_add(nanos));
        let all = all.ok_or_else(wrong)?;
        Ok(match seconds >= SINCE_1970_S {
            true => Moment::At(Stamp::from_nanos(all)),
            false => Moment::AfterStart(all),
        })
    }
}

impl Moment {
    /// The instant in a bag whose first message is at `first`.
    pub fn in_bag(self, first: Stamp) -> Stamp {
        match self {
            Moment::AfterStart(nanos) => first.offset(nanos),
            Moment::At(stamp) => stamp,
        }
    }
}

/// A line of a list of episodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The bag by its name, if the list has that column.
    pub bag: Option<String>,
    /// The first instant.
    pub start: Moment,
    /// The last instant.
    pub end: Moment,
    /// Task of the robot.
    pub task: Option<String>,
}

/// Reads a list of episodes: a CSV file whose first line names the columns `start` and `end` \[s\], and if
/// it has them `task` and `bag`.
///
/// # Errors
/// If the file cannot be read, or a line is wrong.
pub fn read_episodes(path: &Path) -> Result<Vec<Listed>, EpisodesError> {
    let io = |source| EpisodesError::Io { path: path.to_owned(), source };
    let wrong = |line: usize, expected, found: &str| EpisodesError::Line {
        path: path.to_owned(),
        line,
        expected,
        found: format!("'{found}'"),
    };
    let text = std::fs::read_to_string(path).map_err(io)?;
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let unreadable = |error: csv::Error| {
        let line = error.position().map_or(1, |at| at.line() as usize);
        wrong(line, "a line of CSV with as many fields as the first", &error.to_string())
    };
    let header = reader.headers().map_err(unreadable)?.clone();
    let column = |name: &str| header.iter().position(|column| column == name);
    let (Some(start), Some(end)) = (column("start"), column("end")) else {
        let found = header.iter().collect::<Vec<_>>().join(",");
        return Err(wrong(1, "the columns start and end (and if wanted task and bag)", &found));
    };
    let is_known = |name: &&str| ["start", "end", "task", "bag"].contains(name);
    if let Some(unknown) = header.iter().find(|name| !is_known(name)) {
        let expected = "no columns but start, end, task and bag, each with its name";
        return Err(wrong(1, expected, unknown));
    }
    let task = column("task");
    let bag = column("bag");
    let mut episodes = Vec::new();
    for record in reader.records() {
        let record = record.map_err(unreadable)?;
        let line = record.position().map_or(0, |at| at.line() as usize);
        let field = |at: usize| record.get(at).unwrap_or_default();
        let moment = |at: usize| {
            let seconds = "seconds such as 12.5 or 1795000000.25";
            field(at).parse::<Moment>().map_err(|_| wrong(line, seconds, field(at)))
        };
        let text =
            |at: Option<usize>| at.map(field).filter(|text| !text.is_empty()).map(str::to_owned);
        let listed =
            Listed { bag: text(bag), start: moment(start)?, end: moment(end)?, task: text(task) };
        episodes.push(listed);
    }
    Ok(episodes)
}
