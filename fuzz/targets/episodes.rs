//! Saved episodes, as a cache opens them. The first byte is 0 if the rest is the index, which gets a good checksum.
//! Otherwise it chooses a column, and the rest replaces it; the index then has its size and its checksum.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use super::super::{episodes, rows};
use robocache_data::episodes::Episodes;
use serde_json::Value;

struct Subject {
    folder: PathBuf,
    index: Value,
    /// The columns, with their contents.
    columns: Vec<(PathBuf, Vec<u8>)>,
}

static SUBJECT: LazyLock<Subject> = LazyLock::new(|| {
    let folder = rows::made().join(rows::SAVED);
    let mut columns = episodes::files(&folder);
    columns.retain(|(path, _)| {
        !path
            .file_name()
            .is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with("index.")))
    });
    let index = fs::read(folder.join("index.json")).expect("an index");
    Subject { folder, index: serde_json::from_slice(&index).expect("JSON"), columns }
});

pub(crate) fn run(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let Some(column) = usize::from(*choice).checked_sub(1) else {
        return open(bytes);
    };
    let (path, good) = &SUBJECT.columns[column % SUBJECT.columns.len()];
    fs::write(path, bytes).expect("a file");
    let mut index = SUBJECT.index.clone();
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    let streams = index["streams"].as_array_mut().expect("streams").iter_mut();
    let rings = streams.flat_map(|stream| stream["rings"].as_array_mut().expect("rings"));
    for column in rings.flat_map(|ring| ring["columns"].as_array_mut().expect("columns")) {
        if column["file"] == name {
            column["bytes"] = bytes.len().into();
            column["crc32c"] = crc32c::crc32c(bytes).into();
        }
    }
    open(&serde_json::to_vec(&index).expect("JSON"));
    fs::write(path, good).expect("a file");
}

/// Opens the folder with this index.
fn open(index: &[u8]) {
    let write = |name, bytes: &[u8]| {
        fs::write(SUBJECT.folder.join(name), bytes).expect("a file");
    };
    write("index.json", index);
    write("index.crc32c", format!("{:08x}\n", crc32c::crc32c(index)).as_bytes());
    if let Ok(read) = Episodes::open(&SUBJECT.folder, None, None, true) {
        episodes::use_all(&read);
    }
}
