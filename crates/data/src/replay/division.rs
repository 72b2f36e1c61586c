//! Which episodes bags have.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::episode::{Listed, Moment};
use super::find::stem;
use super::{Episode, EpisodeTopic, ReplayError};
use crate::bag::Bag;
use crate::recording::{DISCARD, Ending, EpisodeFacts, Manifest, Mark, NOT_ENDED, has_end};

/// The part of each bag that counts, and its episodes.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The first instant.
    pub start: Option<Moment>,
    /// The last instant.
    pub end: Option<Moment>,
    /// How each bag is divided.
    pub division: Division,
}

/// How a bag is divided into episodes.
#[derive(Clone, Debug, Default)]
pub enum Division {
    /// It is one.
    #[default]
    Whole,
    /// By a list.
    Listed(Vec<Listed>),
    /// By a topic of the bag.
    ByTopic(EpisodeTopic),
}

/// The episodes of these bags, each with a name that no other has.
///
/// # Errors
/// A list names a missing bag, or has no episode.
pub fn episodes(bags: &[PathBuf], parts: &Parts) -> Result<Vec<Episode>, ReplayError> {
    if let (Division::Listed(listed), [_, _, ..]) = (&parts.division, bags)
        && listed.iter().any(|listed| listed.bag.is_none())
    {
        return Err(ReplayError::Wiring(format!(
            "the list of episodes: expected the column 'bag' with a name in each line, as there are {} bags, \
             found a line without",
            bags.len()
        )));
    }
    let mut episodes = Vec::new();
    for bag in bags {
        if Ending::of(bag) == Ending::Running {
            tracing::warn!(
                "{}: left out: it is still being recorded; give the command again when it has ended",
                bag.display()
            );
            continue;
        }
        let name = stem(bag);
        let listed = match &parts.division {
            Division::Whole => {
                let Parts { start, end, .. } = *parts;
                let bag = bag.clone();
                let episode = Episode { bag, name, start, end, ..Episode::default() };
                episodes.extend(recorded(episode));
                continue;
            }
            Division::ByTopic(topic) => {
                by_topic(bag, &name, topic, &mut episodes);
                continue;
            }
            Division::Listed(listed) => listed,
        };
        let of_bag = listed.iter().filter(|listed| match &listed.bag {
            Some(named) => *named == name || Path::new(named).file_name() == bag.file_name(),
            None => true,
        });
        for (number, listed) in of_bag.enumerate() {
            let start = Some(listed.start);
            let end = Some(listed.end);
            let task = listed.task.clone();
            let name = format!("{name}-{number:04}");
            let bag = bag.clone();
            episodes.push(Episode { bag, name, start, end, task, ..Episode::default() });
        }
    }
    if let Division::Listed(listed) = &parts.division {
        let unknown = listed.iter().filter_map(|listed| listed.bag.as_ref()).find(|named| {
            !bags
                .iter()
                .any(|bag| stem(bag) == **named || Path::new(named).file_name() == bag.file_name())
        });
        if let Some(named) = unknown {
            return Err(ReplayError::Wiring(format!(
                "the list of episodes names the bag '{named}': expected one of those that are replayed"
            )));
        }
    }
    if episodes.is_empty() {
        let none = match &parts.division {
            Division::Whole => {
                "expected an episode, found only those that have the mark 'discard' or are still being recorded"
            }
            _ => "the list of episodes: expected a line, found none",
        };
        return Err(ReplayError::Wiring(none.into()));
    }
    for episode in &mut episodes {
        // These endings are those of results that are not complete.
        while let Some(name) =
            [".partial", ".old"].iter().find_map(|end| episode.name.strip_suffix(end))
        {
            episode.name = name.to_owned();
        }
    }
    name_apart(&mut episodes);
    Ok(episodes)
}

/// An episode with what its recording says of it; `None` if a mark says that it is not wanted.
fn recorded(mut episode: Episode) -> Option<Episode> {
    // A bag that cannot be read says so when it is played.
    let Ok(manifest) = Manifest::read(&episode.bag) else { return Some(episode) };
    let not_ended = lacks_end(&episode.bag).then(|| NOT_ENDED.to_owned());
    for note in manifest.notes().into_iter().chain(not_ended) {
        tracing::warn!("{}: {note}", episode.bag.display());
    }
    episode.begins = manifest.leads_until();
    match Mark::read(&episode.bag) {
        Ok(marks) if Mark::discard(&marks) => {
            tracing::warn!("{}: left out: it has the mark '{DISCARD}'", episode.bag.display());
            return None;
        }
        Ok(marks) => episode.marks = marks,
        Err(error) => episode.wrong = Some(format!("its marks cannot be read: {error}")),
    }
    if let Some(EpisodeFacts { task, .. }) = manifest.episode {
        episode.task = Some(task).filter(|task| !task.is_empty());
    }
    Some(episode)
}

/// True if a folder is a recording without its end. A single file may have others behind it.
fn lacks_end(bag: &Path) -> bool {
    match Ending::of(bag) {
        _ if !bag.is_dir() => false,
        Ending::Complete => matches!(has_end(bag), Ok(Some(false))),
        Ending::Killed => true,
        Ending::Running | Ending::Unknown => false,
    }
}

/// Adds the episodes of a bag by the edges of a topic. If it has no edges, one episode says why.
fn by_topic(bag: &Path, name: &str, topic: &EpisodeTopic, episodes: &mut Vec<Episode>) {
    let found = Bag::open(bag).map_err(ReplayError::from).and_then(|bag| topic.episodes(&bag));
    let bag = bag.to_owned();
    match found {
        Ok(found) => {
            for (number, (start, end)) in found.into_iter().enumerate() {
                let [start, end] = [start, end].map(|at| Some(Moment::At(at)));
                let name = format!("{name}-{number:04}");
                episodes.push(Episode { bag: bag.clone(), name, start, end, ..Episode::default() });
            }
        }
        Err(error) => {
            let name = name.to_owned();
            let wrong = Some(error.to_string());
            episodes.push(Episode { bag, name, wrong, ..Episode::default() });
        }
    }
}

/// Gives names that occur twice the names of their folders, and numbers if that does not help.
fn name_apart(episodes: &mut [Episode]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    episodes.iter().for_each(|episode| *seen.entry(episode.name.clone()).or_default() += 1);
    for episode in episodes.iter_mut().filter(|episode| seen[&episode.name] > 1) {
        let folder = episode.bag.parent().and_then(Path::file_name);
        if let Some(folder) = folder {
            episode.name = format!("{}_{}", folder.to_string_lossy(), episode.name);
        }
    }
    let mut taken = HashSet::new();
    for episode in episodes {
        let name = episode.name.clone();
        let mut number = 2;
        while !taken.insert(episode.name.clone()) {
            episode.name = format!("{name}-{number}");
            number += 1;
        }
    }
}
