//! Reports about tensors: what the policy sees, as pictures, curves and numbers.
//!
//! 1. [`source`] finds the episodes of an output and reads a bounded part of each.
//! 2. [`Track`] notes of each tensor its validity, ages and vectors. Then it keeps a few whole tensors for pictures.
//! 3. The sections of the [`Page`] are made of that.

mod command_parts;
mod commands;
mod parts;
mod pictures;
mod published;
mod raw;
mod recording;
pub mod rerun;
mod rows;
pub mod source;
mod store;
mod track;
mod written;

use std::collections::HashSet;
use std::path::Path;

pub use commands::{ChunkShown, CommandShown, GroupTrack};
pub use parts::percent;
pub use published::Against;
pub use source::{Episode, Looked, ViewError};
pub use track::{Break, Kept, Segment, Step, StepValidity, Track};

use crate::report::{Page, Section, Table, number, significant};
use robocache_data::episodes::TaskFrom;
use robocache_data::replay::Summary;

/// Selection of the parts of an output that are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOptions {
    /// Episodes to show, by name; if empty, the first ones.
    pub episodes: Vec<String>,
    /// Most episodes that are shown. All are listed.
    pub most_episodes: usize,
    /// Pictures of each image segment.
    pub pictures: usize,
    /// Bytes of tensors that are gone through, of all episodes together. Of a store, these are the bytes of vectors,
    /// validity and ages.
    pub budget: u64,
    /// The bag that the tensors were made of: its vectors are drawn beside theirs.
    pub against: Option<Against>,
}

impl Default for ViewOptions {
    fn default() -> Self {
        ViewOptions {
            episodes: Vec::new(),
            most_episodes: 3,
            pictures: 4,
            budget: 64 << 30,
            against: None,
        }
    }
}

impl ViewOptions {
    /// Checks that no bag is given for a comparison without tensors.
    fn without_bag(&self, path: &Path, why: &'static str) -> Result<(), ViewError> {
        match self.against {
            None => Ok(()),
            Some(_) => Err(ViewError::NotCompared { path: path.to_owned(), why }),
        }
    }
}

/// Makes the report of an output of `robocache replay`, of a bag with tensors, of a recording of the node, or of a
/// JSON file with a report that another program has put together.
///
/// # Errors
/// There are no tensors, an episode has no such name, or a file cannot be read.
pub fn page(path: &Path, options: &ViewOptions) -> Result<Page, ViewError> {
    if path.extension().is_some_and(|end| end == "json") {
        options.without_bag(path, "this is what another program has written")?;
        return written::page(path);
    }
    if let Some(manifest) = recording::manifest(path) {
        options.without_bag(
            path,
            "this is a recording of the node: replay it, and view its tensors",
        )?;
        return recording::page(path, &manifest);
    }
    if let Some(store) = source::store_of_rows(path) {
        options.without_bag(path, "a store of rows has the rows of its bags already")?;
        return rows::page(&store, options);
    }
    let episodes = source::episodes(path)?;
    let chosen = chosen(&episodes, options, path)?;
    let compared = match &options.against {
        Some(against) => against.compares(&chosen, &source::siblings(path, &episodes))?,
        None => Vec::new(),
    };
    let mut page = Page::new("robocache view");
    page.about(&path.display().to_string());
    let mut sections = Vec::new();
    let budget = options.budget / chosen.len().max(1) as u64;
    let mut tiles = Vec::new();
    for episode in &chosen {
        let (track, looked) = episode.read(budget, options.pictures)?;
        if tiles.is_empty() {
            tiles = tiles_of(episode, &track, episodes.len(), &looked);
        }
        sections.push(about(episode, &track, &looked));
        if let Some(against) = options
            .against
            .as_ref()
            .filter(|_| compared.iter().any(|compared| compared.name == episode.name))
        {
            sections.push(published::compared(&track, against)?);
        }
        sections.extend(of_tensors(&track));
        sections.extend(episode.commands()?.iter().map(command_parts::commands));
    }
    tiles.iter().for_each(|(value, what)| {
        page.tile(value, what);
    });
    if episodes.len() > 1 {
        page.add(list(&episodes, &chosen));
    }
    let prefix = |title: &str, at: usize| format!("{}: {title}", chosen[at].name);
    let mut at = 0;
    for section in sections {
        // The first section of an episode has its name.
        at += usize::from(section.title().is_empty());
        let title = match (section.title(), chosen.len()) {
            ("", _) => format!("Episode {}", chosen[at - 1].name),
            (title, 1) => title.to_owned(),
            (title, _) => prefix(title, at - 1),
        };
        page.add(section.titled(&title));
    }
    Ok(page)
}

/// The sections about tensors, without those that would be empty.
pub fn of_tensors(track: &Track) -> Vec<Section> {
    let mut sections = of_rows(std::slice::from_ref(track));
    if !track.ticks.is_empty() {
        sections.extend([parts::validity(track), parts::layout(track)]);
    }
    sections
}

/// Pictures, grids and curves, without sections that would be empty.
fn of_rows(tracks: &[Track]) -> Vec<Section> {
    let parts = [pictures::cameras(tracks), pictures::grids(tracks), parts::curves(tracks)];
    parts.into_iter().filter(|section| !section.is_empty()).collect()
}

/// The episodes that are shown.
fn chosen<'a>(
    episodes: &'a [Episode],
    options: &ViewOptions,
    path: &Path,
) -> Result<Vec<&'a Episode>, ViewError> {
    let names: Vec<_> = episodes.iter().map(|episode| episode.name.clone()).collect();
    Ok(choose(&names, options, path)?.into_iter().map(|at| &episodes[at]).collect())
}

/// The numbers of the episodes that are shown, of those with these names.
fn choose(names: &[String], options: &ViewOptions, path: &Path) -> Result<Vec<usize>, ViewError> {
    if options.episodes.is_empty() {
        return Ok((0..names.len().min(options.most_episodes.max(1))).collect());
    }
    let number = |name: &String| {
        names.iter().position(|known| known == name).ok_or_else(|| ViewError::Episode {
            path: path.to_owned(),
            found: name.clone(),
            expected: names.join(", "),
        })
    };
    options.episodes.iter().map(number).collect()
}

/// The headline: numbers of the first episode that is shown.
fn tiles_of(
    episode: &Episode,
    track: &Track,
    episodes: usize,
    looked: &Looked,
) -> Vec<(String, String)> {
    let mut tiles = Vec::new();
    let mut of = String::new();
    if episodes > 1 {
        tiles.push((episodes.to_string(), "episodes".to_owned()));
        of = format!(" of {}", episode.name);
    }
    let ticks = looked.ticks.map_or("?".to_owned(), |ticks| ticks.to_string());
    tiles.push((ticks, format!("tensors{of}, {} looked at", track.ticks.len())));
    if let Some(info) = &track.info {
        tiles.push((format!("{} Hz", significant(info.rate_hz, 4)), "rate of the ticks".into()));
    }
    let size = track.tensor_bytes as f64;
    tiles.push((format!("{} MB", significant(size / 1e6, 3)), "per tick".into()));
    let shares = parts::shown(track).filter_map(|segment| track.valid_share(segment));
    if let Some(worst) = shares.reduce(f64::min) {
        tiles.push((percent(worst), format!("valid steps of the worst segment{of}")));
    }
    tiles
}

/// The first section of an episode: where it is from, and what of it is shown. It has no title yet.
fn about(episode: &Episode, track: &Track, looked: &Looked) -> Section {
    let mut section = Section::new("");
    section.text(&looked.text(track));
    if track.info.is_none() && !track.ticks.is_empty() {
        section.text(
            "There is no FusedTensorInfo beside these tensors. So it is not known what they mean: images and \
             grids are not drawn.",
        );
    }
    if let Some(summary) = &episode.summary {
        summarise(summary, &mut section);
    }
    if !looked.problems.is_empty() {
        section.heading("What could not be read", "").list(&looked.problems);
    }
    section
}

/// Summarises what `robocache replay` says of the whole episode.
fn summarise(summary: &Summary, section: &mut Section) {
    let mut facts = vec![format!("From {}", summary.bag)];
    match summary.tasks.as_slice() {
        [] => facts.extend(summary.task.as_ref().map(|task| format!("Task: {task}"))),
        tasks => facts.extend(tasks.iter().map(|part| {
            let from_s = (part.begin_ns - tasks[0].begin_ns) as f64 / 1e9;
            let task = if part.task.is_empty() { "none" } else { &part.task };
            format!("Task from {} s on: {task}", number(from_s, 3))
        })),
    }
    facts.push(format!(
        "{} ticks, {} held back, {} passed over by the clock",
        summary.ticks, summary.held_back, summary.overruns
    ));
    if let Some(tick) = summary.skew.tick {
        let skew = number(summary.skew.largest_ns as f64 / 1e6, 3);
        facts.push(format!("Largest skew between two streams: {skew} ms, at tick {tick}"));
    }
    facts.extend(summary.missing.iter().map(|topic| format!("{topic} is not in the bag")));
    facts.extend(summary.problems.iter().cloned());
    section.list(&facts);
    let mut table =
        Table::new(&["stream", "why steps are not valid", "rows", "steps", "valid"]).texts(2);
    for (name, stream) in &summary.streams {
        let reasons = stream.invalid.iter().map(|(reason, steps)| format!("{reason} {steps}"));
        let share = stream.valid_share.map_or("\u{2013}".to_owned(), percent);
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        let rows = stream.rows.to_string();
        let steps = stream.steps.to_string();
        table.row(&[name.clone(), reasons, rows, steps, share]);
    }
    section.heading("All ticks of the episode", "").table(&table);
    let mut drops = Table::new(&["input", "reason", "dropped", "received"]).texts(2);
    for (name, input) in &summary.inputs {
        for (reason, count) in &input.dropped {
            let count = count.to_string();
            let all = input.received.to_string();
            drops.row(&[name.as_str(), reason, &count, &all]);
        }
    }
    if !drops.is_empty() {
        section.heading("Messages that were dropped", "").table(&drops);
    }
}

/// The texts of the tasks of an episode, each once.
fn task_texts(task: Option<&str>, tasks: &[TaskFrom]) -> String {
    let mut texts: Vec<&str> = tasks.iter().map(|part| part.task.as_str()).chain(task).collect();
    let mut known = HashSet::new();
    texts.retain(|text| !text.is_empty() && known.insert(*text));
    texts.join("; ")
}

/// All episodes.
fn list(episodes: &[Episode], chosen: &[&Episode]) -> Section {
    let mut section = Section::new("Episodes");
    let mut table = Table::new(&[
        "episode",
        "task",
        "shown below",
        "ticks",
        "held back",
        "worst stream",
        "skew",
    ]);
    table = table.texts(3);
    for episode in episodes {
        let shown = chosen.iter().any(|shown| shown.name == episode.name);
        let shown = if shown { "yes" } else { "" }.to_owned();
        let Some(summary) = &episode.summary else {
            let ticks = episode.tensors().map_or(String::new(), |ticks| ticks.to_string());
            table.row(&[episode.name.clone(), String::new(), shown, ticks]);
            continue;
        };
        let worst = summary.streams.iter().filter_map(|(name, s)| Some((s.valid_share?, name)));
        let worst = worst.min_by(|a, b| a.0.total_cmp(&b.0));
        table.row(&[
            episode.name.clone(),
            task_texts(summary.task.as_deref(), &summary.tasks),
            shown,
            summary.ticks.to_string(),
            summary.held_back.to_string(),
            worst.map_or(String::new(), |(share, name)| format!("{name} {}", percent(share))),
            format!("{} ms", number(summary.skew.largest_ns as f64 / 1e6, 3)),
        ]);
    }
    section.table(&table);
    section
}
