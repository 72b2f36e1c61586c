//! Finds the files of a bag and opens them.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::compressed::{self, Plain};
use super::{Bag, BagError, Problem, Storage, Topic, mcap, metadata, sqlite};

impl Bag {
    /// Opens a bag: the folder that rosbag2 wrote, with or without `metadata.yaml`, or one of its
    /// files. Only indices are read.
    ///
    /// # Errors
    /// If there is no bag, or none of its files can be read. A file that cannot be read beside
    /// others is one of [`Bag::problems`].
    pub fn open(path: &Path) -> Result<Bag, BagError> {
        let mut bag =
            Bag { path: path.to_owned(), topics: vec![], problems: vec![], files: vec![] };
        let (files, told) = files_of(path, &mut bag.problems)?;
        let mut errors = Vec::new();
        for file in files {
            match open_file(&file, &mut bag.problems) {
                Ok(storage) => bag.files.push(storage),
                Err(error) => errors.push(error),
            }
        }
        if bag.files.is_empty() {
            return Err(errors.remove(0));
        }
        bag.problems.extend(errors.into_iter().map(Problem::from));
        bag.join_topics(told.map(|told| told.topics).unwrap_or_default());
        Ok(bag)
    }

    /// Collects the topics of all files. `told` are those of `metadata.yaml`: a topic without
    /// messages may be there alone.
    fn join_topics(&mut self, told: Vec<Topic>) {
        let mut topics: Vec<Topic> = Vec::new();
        let counted =
            self.files.iter().all(|file| file.topics().iter().all(|t| t.messages.is_some()));
        for file in &self.files {
            for topic in file.topics() {
                let Some(known) = topics.iter_mut().find(|known| known.name == topic.name) else {
                    topics.push(topic.clone());
                    continue;
                };
                if known.ros_type != topic.ros_type {
                    let what = format!(
                        "{}: expected one type, found {} and {}: messages of the second are left out",
                        topic.name, known.ros_type, topic.ros_type
                    );
                    self.problems.push(Problem::damage(&self.path, what));
                    continue;
                }
                known.messages =
                    known.messages.zip(topic.messages).map(|(a, b)| a.saturating_add(b));
                if known.offered_qos.is_empty() {
                    known.offered_qos.clone_from(&topic.offered_qos);
                }
                known.definition = known.definition.take().or_else(|| topic.definition.clone());
            }
        }
        for topic in told {
            match topics.iter_mut().find(|known| known.name == topic.name) {
                Some(known) if !counted => known.messages = known.messages.or(topic.messages),
                Some(_) => {}
                None => topics.push(topic),
            }
        }
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        self.topics = topics;
    }
}

/// The files of a bag in the order of recording, and what `metadata.yaml` says.
fn files_of(
    path: &Path,
    problems: &mut Vec<Problem>,
) -> Result<(Vec<PathBuf>, Option<metadata::Metadata>), BagError> {
    let found = path.metadata().map_err(BagError::io(path))?;
    if found.is_file() {
        return match kind(path) {
            Some(_) => Ok((vec![path.to_owned()], None)),
            None if path.file_name().is_some_and(|name| name == metadata::NAME) => {
                files_of(path.parent().unwrap_or(Path::new(".")), problems)
            }
            None => Err(no_bag(path, "another file")),
        };
    }
    let told = metadata::read(path).unwrap_or_else(|error| {
        problems.push(error.into());
        None
    });
    let mut files = match &told {
        Some(told) => named(path, &told.files, problems),
        None => Vec::new(),
    };
    if files.is_empty() {
        files = listed(path)?;
    }
    match files.is_empty() {
        true => Err(no_bag(path, &what_is_in(path))),
        false => Ok((files, told)),
    }
}

/// Description of a folder that is no bag. Recorders make a folder for each bag in the folder that they are given.
fn what_is_in(folder: &Path) -> String {
    let entries = folder.read_dir().into_iter().flatten().filter_map(Result::ok);
    let bags = entries.map(|entry| entry.path()).filter(|path| path.join(metadata::NAME).is_file());
    let what = "a folder without .mcap and .db3 files";
    match bags.min() {
        Some(bag) => format!("{what}; there are bags in it: name one, such as {}", bag.display()),
        None => what.to_owned(),
    }
}

/// The files that `metadata.yaml` names, as far as they exist. A bag that was compressed or renamed
/// later may name them otherwise.
fn named(folder: &Path, files: &[PathBuf], problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in files {
        // Only files of the folder: a bag must not name others. Old versions name the folder too.
        let Some(name) = name.file_name() else { continue };
        let path = folder.join(name);
        let both = [path.clone(), path.with_extension("")];
        match both.into_iter().find(|path| path.is_file() && kind(path).is_some()) {
            Some(path) => found.push(path),
            None => {
                let what =
                    format!("expected this file, as {} names it, found none", metadata::NAME);
                problems.push(Problem::damage(&path, what));
            }
        }
    }
    found
}

/// The files of a folder that can be of a bag, in the order of their numbers.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, BagError> {
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(BagError::io(folder))? {
        let path = entry.map_err(BagError::io(folder))?.path();
        if path.is_file() && kind(&path).is_some() {
            files.push(path);
        }
    }
    files.sort_by(|a, b| by_number(&a.to_string_lossy(), &b.to_string_lossy()));
    // If a file and its compressed form are both there, one is enough.
    let plain = files.clone();
    files.retain(|path| {
        !compressed::is_compressed(path) || !plain.contains(&path.with_extension(""))
    });
    Ok(files)
}

/// Compares texts; digits in a row are compared as numbers, so that `bag_10` is after `bag_9`.
pub(crate) fn by_number(a: &str, b: &str) -> Ordering {
    let mut a = a;
    let mut b = b;
    loop {
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let in_a = digits(a);
        let in_b = digits(b);
        if in_a > 0 && in_b > 0 {
            let number =
                |text: &str, length: usize| text[..length].trim_start_matches('0').to_owned();
            let left = number(a, in_a);
            let right = number(b, in_b);
            let order = left.len().cmp(&right.len()).then_with(|| left.cmp(&right));
            if order != Ordering::Equal {
                return order;
            }
            (a, b) = (&a[in_a..], &b[in_b..]);
            continue;
        }
        let mut left = a.chars();
        let mut right = b.chars();
        match (left.next(), right.next()) {
            (Some(x), Some(y)) if x == y => (a, b) = (left.as_str(), right.as_str()),
            (x, y) => return x.cmp(&y),
        }
    }
}

/// Format of a bag's file.
enum FileFormat {
    Mcap,
    Sqlite,
}

fn kind(path: &Path) -> Option<FileFormat> {
    let plain = match compressed::is_compressed(path) {
        true => path.with_extension(""),
        false => path.to_owned(),
    };
    match plain.extension()?.to_str()? {
        "mcap" => Some(FileFormat::Mcap),
        "db3" => Some(FileFormat::Sqlite),
        _ => None,
    }
}

fn open_file(path: &Path, problems: &mut Vec<Problem>) -> Result<Box<dyn Storage>, BagError> {
    let plain: Plain = compressed::file(path, problems)?;
    Ok(match kind(path) {
        Some(FileFormat::Mcap) => Box::new(mcap::File::open(path, plain, problems)?),
        Some(FileFormat::Sqlite) => Box::new(sqlite::File::open(path, plain, problems)?),
        None => return Err(no_bag(path, "another file")),
    })
}

fn no_bag(path: &Path, found: &str) -> BagError {
    BagError::NoBag { path: path.to_owned(), found: found.to_owned() }
}

#[cfg(test)]
mod tests;
