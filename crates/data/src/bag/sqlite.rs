//! sqlite3 files, of all versions of rosbag2.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OpenFlags, params};

use super::compressed::{self, Plain};
use super::order::Order;
use super::{BagError, Definition, Problem, Problems, Reading, Recorded, Sorted, Storage, Topic};
use robocache_ops::time::Stamp;

/// Rows of the index that are read at once. Their messages are read one by one.
const PAGE: i64 = 1024;

/// SQLite's "all rows".
const NO_LIMIT: i64 = -1;

/// A sqlite3 file.
#[derive(Debug)]
pub(super) struct File {
    /// Name of the file in the bag.
    path: PathBuf,
    plain: Arc<Plain>,
    topics: Vec<Topic>,
    /// The position of a topic, by its id in the file.
    ids: HashMap<i64, usize>,
    span: Option<(Stamp, Stamp)>,
}

impl File {
    /// Opens a file. `plain` is the file that is read.
    pub(super) fn open(
        path: &Path,
        plain: Plain,
        problems: &mut Vec<Problem>,
    ) -> Result<Self, BagError> {
        let connection = connect(path, &plain)?;
        let failed = |error: rusqlite::Error| failure(path, error);
        if !has_tables(&connection).map_err(failed)? {
            let what = "sqlite3: expected the tables topics and messages, found none";
            return Err(BagError::damaged(path, what));
        }
        let definitions = definitions(&connection).unwrap_or_else(|error| {
            let what = format!("sqlite3: {error}; its definitions of messages are not used");
            let unreadable = is_of_the_system(&error);
            problems.push(Problem { unreadable, ..Problem::damage(path, what) });
            HashMap::new()
        });
        let mut topics = Vec::new();
        let mut ids = HashMap::new();
        let query = format!(
            "SELECT id, name, type, serialization_format, {} FROM topics ORDER BY id",
            if has_qos(&connection) { "offered_qos_profiles" } else { "NULL" }
        );
        let mut statement = connection.prepare(&query).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            ids.insert(row.get(0).map_err(failed)?, topics.len());
            let ros_type: String = row.get(2).map_err(failed)?;
            topics.push(Topic {
                name: row.get(1).map_err(failed)?,
                definition: definitions.get(&ros_type).cloned(),
                ros_type,
                format: row.get(3).map_err(failed)?,
                messages: None,
                offered_qos: row.get::<_, Option<String>>(4).map_err(failed)?.unwrap_or_default(),
                array: None,
            });
        }
        let span = span(&connection).unwrap_or_else(|error| {
            let what = format!("sqlite3: {error}; no message is read");
            problems.push(Problem {
                unreadable: is_of_the_system(&error),
                ..Problem::damage(path, what)
            });
            None
        });
        Ok(File { path: path.to_owned(), plain: Arc::new(plain), topics, ids, span })
    }
}

/// True if the operating system could not read the file.
fn is_of_the_system(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as Code;
    error.sqlite_error_code().is_some_and(|code| {
        matches!(
            code,
            Code::CannotOpen
                | Code::DatabaseBusy
                | Code::DatabaseLocked
                | Code::DiskFull
                | Code::FileLockingProtocolFailed
                | Code::OutOfMemory
                | Code::PermissionDenied
                | Code::SystemIoFailure
        )
    })
}

/// Why a file cannot be opened: the system says no, or it is damaged.
fn failure(path: &Path, error: rusqlite::Error) -> BagError {
    match is_of_the_system(&error) {
        true => BagError::io(path)(std::io::Error::other(error)),
        false => BagError::damaged(path, format!("sqlite3: {error}")),
    }
}

/// Opens a file for reading alone.
fn connect(path: &Path, plain: &Plain) -> Result<Connection, BagError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(&plain.path, flags).map_err(|error| failure(path, error))
}

/// True if the tables are there, as tables: a view could have rows without end.
fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('topics', 'messages')";
    Ok(connection.query_row(query, [], |row| row.get::<_, i64>(0))? == 2)
}

/// The definitions by type. Files before ROS 2 Iron have none.
fn definitions(connection: &Connection) -> rusqlite::Result<HashMap<String, Definition>> {
    let query =
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'message_definitions'";
    if connection.query_row(query, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(HashMap::new());
    }
    let query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions";
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([])?;
    let mut definitions = HashMap::new();
    while let Some(row) = rows.next()? {
        let definition = Definition { encoding: row.get(1)?, text: row.get(2)? };
        if !definition.text.is_empty() {
            definitions.insert(row.get(0)?, definition);
        }
    }
    Ok(definitions)
}

fn span(connection: &Connection) -> rusqlite::Result<Option<(Stamp, Stamp)>> {
    // Two queries, because SQLite uses the index of the stamps for one extreme, and not for two.
    let extreme = |which: &str| -> rusqlite::Result<Option<i64>> {
        connection
            .query_row(&format!("SELECT {which}(timestamp) FROM messages"), [], |row| row.get(0))
    };
    let span = extreme("min")?.zip(extreme("max")?);
    Ok(span.map(|(first, last)| (Stamp::from_nanos(first), Stamp::from_nanos(last))))
}

/// True if topics have the offers of their publishers. The first versions of rosbag2 stored none.
fn has_qos(connection: &Connection) -> bool {
    let query =
        "SELECT count(*) FROM pragma_table_info('topics') WHERE name = 'offered_qos_profiles'";
    connection.query_row(query, [], |row| row.get::<_, i64>(0)).is_ok_and(|columns| columns > 0)
}

/// True if there is an index of the stamps. rosbag2 makes one. Its entries have the ids, so a page is
/// found without sorting; otherwise all rows must be sorted once, without their messages.
fn has_index(connection: &Connection) -> bool {
    let query = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'messages'";
    connection.query_row(query, [], |row| row.get::<_, i64>(0)).is_ok_and(|indices| indices > 0)
}

impl Storage for File {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn span(&self) -> Option<(Stamp, Stamp)> {
        self.span
    }

    fn read(&self, wanted: &[Option<usize>], sorted: Sorted) -> Result<Box<dyn Reading>, BagError> {
        let ids = self.ids.iter();
        let wanted = ids.filter_map(|(id, topic)| Some((*id, (*wanted.get(*topic)?)?))).collect();
        let connection = connect(&self.path, &self.plain)?;
        Ok(Box::new(Reader {
            // Ids are the order of writing, and always have an index.
            page_rows: match sorted {
                Sorted::ByStamp(_) if !has_index(&connection) => NO_LIMIT,
                Sorted::ByStamp(_) | Sorted::AsWritten => PAGE,
            },
            sorted,
            connection,
            path: self.path.clone(),
            _plain: Arc::clone(&self.plain),
            wanted,
            page: VecDeque::new(),
            after: match sorted {
                Sorted::ByStamp(from) => Some((from.nanos(), i64::MIN)),
                Sorted::AsWritten => Some((i64::MIN, i64::MIN)),
            },
            order: Order::default(),
        }))
    }
}

/// The messages of a file.
struct Reader {
    connection: Connection,
    sorted: Sorted,
    path: PathBuf,
    /// Keeps the file while it is read.
    _plain: Arc<Plain>,
    /// The topic of the bag, by the topic's id.
    wanted: HashMap<i64, usize>,
    /// Most rows of a page.
    page_rows: i64,
    /// Stamp, id and topic of the messages that come next.
    page: VecDeque<(i64, i64, usize)>,
    /// Stamp and id of the last message of the page; `None` if it was the last page.
    after: Option<(i64, i64)>,
    order: Order,
}

impl Reading for Reader {
    fn next(&mut self, problems: &mut Problems) -> Option<Recorded> {
        loop {
            let Some((stamp, id, topic)) = self.page.pop_front() else {
                self.after?;
                if let Err(error) = self.turn() {
                    self.after = None;
                    let what = format!("sqlite3: {error}: the messages after that are not read");
                    let unreadable = is_of_the_system(&error);
                    problems.push(Problem { unreadable, ..Problem::damage(&self.path, what) });
                }
                continue;
            };
            match self.body(id) {
                Ok(bytes) => {
                    let received = Stamp::from_nanos(stamp);
                    // Ids are given in the order of writing.
                    let place = (id.max(0) as u64, 0);
                    self.order.note(topic, place, received, &self.path, problems);
                    return Some(Recorded { topic, received, published: None, bytes });
                }
                Err((why, unreadable)) => {
                    let what = format!("message {id} is not read: {why}");
                    problems.push(Problem { unreadable, ..Problem::damage(&self.path, what) });
                }
            }
        }
    }
}

impl Reader {
    /// Reads the next page.
    fn turn(&mut self) -> rusqlite::Result<()> {
        let Some((stamp, id)) = self.after.take() else { return Ok(()) };
        let query = match self.sorted {
            Sorted::ByStamp(_) => {
                "SELECT timestamp, id, topic_id FROM messages WHERE (timestamp, id) > (?1, ?2) \
                 ORDER BY timestamp, id LIMIT ?3"
            }
            Sorted::AsWritten => {
                "SELECT timestamp, id, topic_id FROM messages WHERE id > ?2 AND ?1 IS NOT NULL \
                 ORDER BY id LIMIT ?3"
            }
        };
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query(params![stamp, id, self.page_rows])?;
        let mut read = 0;
        let mut last = None;
        while let Some(row) = rows.next()? {
            let (stamp, id, topic): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            read += 1;
            last = Some((stamp, id));
            if let Some(topic) = self.wanted.get(&topic) {
                self.page.push_back((stamp, id, *topic));
            }
        }
        self.after = last.filter(|_| read == self.page_rows);
        Ok(())
    }

    /// Reads a message. If that fails, returns why, and whether the system could not read it.
    fn body(&self, id: i64) -> Result<Bytes, (String, bool)> {
        let text = |error: rusqlite::Error| (format!("sqlite3: {error}"), is_of_the_system(&error));
        let mut statement = self
            .connection
            .prepare_cached("SELECT data FROM messages WHERE id = ?1")
            .map_err(text)?;
        let bytes: Vec<u8> = statement.query_row([id], |row| row.get(0)).map_err(text)?;
        compressed::message(bytes.into()).map_err(|why| (why, false))
    }
}
