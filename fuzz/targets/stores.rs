//! Files of a store of rows (Zarr), as training and `robocache view` read them. The first byte chooses a file of the
//! store of a small bag, and the rest replaces it. If the second byte is 255, the rest is the content of the
//! first chunk of a shard, which gets a good checksum and a good index. If it is 254, a report is made, which is slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::super::{episodes, rows};
use robocache_data::episodes::{Episodes, Reading};
use robocache_tools::view::{ViewOptions, page};

struct Subject {
    store: PathBuf,
    /// The files, with their contents.
    files: Vec<(PathBuf, Vec<u8>)>,
}

static SUBJECT: LazyLock<Subject> = LazyLock::new(|| {
    let store = rows::made().join(rows::STORE);
    let files = episodes::files(&store);
    Subject { store, files }
});

pub(crate) fn run(input: &[u8]) {
    let [choice, how, bytes @ ..] = input else { return };
    let (path, good) = &SUBJECT.files[usize::from(*choice) % SUBJECT.files.len()];
    match how {
        255 if episodes::is_shard(path) => fs::write(path, of_chunk(path, bytes)),
        _ => fs::write(path, bytes),
    }
    .expect("a file");
    match how {
        254 => view(&SUBJECT.store),
        _ => read(&SUBJECT.store),
    }
    fs::write(path, good).expect("a file");
}

fn read(store: &Path) {
    for packed in [false, true] {
        let reading = Reading { threads: 1, packed, ..Reading::default() };
        if let Ok(read) = Episodes::of_store(store, reading) {
            episodes::use_all(&read);
        }
    }
}

fn view(store: &Path) {
    if let Ok(page) = page(store, &ViewOptions::default()) {
        drop(page.html());
    }
}

/// A shard whose first chunk has these bytes. It has as many chunks as its array says.
fn of_chunk(path: &Path, packed: &[u8]) -> Vec<u8> {
    let array = path.parent().expect("a folder").join("zarr.json");
    let array: serde_json::Value =
        serde_json::from_slice(&fs::read(array).expect("an array")).expect("JSON");
    let rows = |of: &serde_json::Value| of["configuration"]["chunk_shape"][0].as_u64();
    let [shard, chunk] = [rows(&array["chunk_grid"]), rows(&array["codecs"][0])];
    let chunks = (shard.expect("rows") / chunk.expect("rows")) as usize;
    let with_checksum = |bytes: &[u8]| [bytes, &crc32c::crc32c(bytes).to_le_bytes()].concat();
    let stored = with_checksum(packed);
    let mut index = vec![u64::MAX; 2 * chunks];
    (index[0], index[1]) = (0, stored.len() as u64);
    let index: Vec<u8> = index.iter().flat_map(|word| word.to_le_bytes()).collect();
    [stored, with_checksum(&index)].concat()
}
