//! A Rerun recording of what was kept, by the rerun-sdk of an installed Python.

use robocache_core::encoder::kind;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::pictures::{Shown, Voxels, shown};
use super::track::{Segment, StepValidity, Track};
use super::{Episode, GroupTrack, ViewError, ViewOptions, chosen, recording, source};
use robocache_ops::time::Stamp;

/// The script that writes the recording.
const SCRIPT: &str = include_str!("rerun_file.py");
/// Pictures and grids of each stream, about.
const PICTURES: usize = 150;

/// Markers and colours of the rows of a chunk and of the next one, of rows that were late, and of seams.
const CHUNK: (&str, [u8; 3]) = ("circle", [86, 156, 214]);
const NEXT_CHUNK: (&str, [u8; 3]) = ("circle", [78, 176, 130]);
const LATE: (&str, [u8; 3]) = ("cross", [220, 80, 70]);
const SEAM: (&str, [u8; 3]) = ("diamond", [240, 190, 60]);

/// Input of the script: `scene.json`.
#[derive(Serialize)]
struct Scene {
    application: &'static str,
    recording: String,
    entities: Vec<Entity>,
}

/// Something over time. Files are raw arrays, little-endian.
#[derive(Serialize)]
struct Entity {
    path: String,
    kind: &'static str,
    times_ns: Vec<i64>,
    /// Of scalars: instants from which on there is no value, until the next one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps_ns: Vec<i64>,
    /// Of scalars: their file.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Of scalars that are drawn as points: their marker and colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    marker: Option<(&'static str, [u8; 3])>,
    /// Of texts: a text per instant. Of others: a file per instant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<String>,
    width: usize,
    height: usize,
    size_m: f64,
}

/// Writes a Rerun recording of the episodes that [`super::page`] shows, or of the commands of a recording of the node. Its
/// timeline is `time`: the targets, and the instants of rows and commands.
///
/// # Errors
/// As [`super::page`]; or there is no `python3` with rerun-sdk.
pub fn write(path: &Path, options: &ViewOptions, out: &Path) -> Result<(), ViewError> {
    let folder =
        tempfile::tempdir().map_err(|source| io(Path::new("a temporary folder"), source))?;
    let mut scene = Files { folder: folder.path(), count: 0, entities: Vec::new() };
    let failed = |source| io(folder.path(), source);
    let names = match recording::manifest(path) {
        Some(manifest) => {
            let (name, groups) = recording::commands_of(path, &manifest)?;
            if groups.is_empty() {
                return Err(ViewError::Rerun(format!(
                    "{}: expected tensors or commands, found a recording without commands: replay it, and view its \
                     tensors",
                    path.display()
                )));
            }
            scene.commands(&name, &groups).map_err(failed)?;
            vec![name]
        }
        None => {
            let episodes = source::episodes(path)?;
            let chosen = chosen(&episodes, options, path)?;
            let budget = options.budget / chosen.len().max(1) as u64;
            for episode in &chosen {
                let (track, _) = episode.read(budget, PICTURES)?;
                scene.add(episode, &track).map_err(failed)?;
                scene.commands(&episode.name, &episode.commands()?).map_err(failed)?;
            }
            chosen.iter().map(|episode| episode.name.clone()).collect()
        }
    };
    let json =
        Scene { application: "robocache", recording: names.join(","), entities: scene.entities };
    let json = serde_json::to_vec(&json).unwrap_or_default();
    fs::write(folder.path().join("scene.json"), json)
        .map_err(|source| io(folder.path(), source))?;
    run(folder.path(), out)
}

fn io(path: &Path, source: std::io::Error) -> ViewError {
    ViewError::Io { path: path.to_owned(), source }
}

/// Runs the script with the Python that is found first.
fn run(folder: &Path, out: &Path) -> Result<(), ViewError> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(&python);
    command.arg("-c").arg(SCRIPT).arg(folder).arg(out).stdin(Stdio::null());
    let done = command.output().map_err(|error| {
        ViewError::Rerun(format!("--rerun needs Python with rerun-sdk: {python}: {error}"))
    })?;
    if done.status.success() {
        return Ok(());
    }
    Err(ViewError::Rerun(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
}

/// The files of a scene.
struct Files<'a> {
    folder: &'a Path,
    count: usize,
    entities: Vec<Entity>,
}

impl Files<'_> {
    fn file(&mut self, bytes: &[u8]) -> std::io::Result<String> {
        let name = format!("{}.bin", self.count);
        self.count += 1;
        fs::write(self.folder.join(&name), bytes)?;
        Ok(name)
    }

    /// Adds an episode: curves, ages, validity, and pictures.
    fn add(&mut self, episode: &Episode, track: &Track) -> std::io::Result<()> {
        for segment in &track.segments {
            let path = format!("{}/{}", part(&episode.name), part(&segment.name));
            self.curves(&path, segment, track)?;
            self.pictures(&path, segment, track)?;
        }
        Ok(())
    }

    fn curves(&mut self, path: &str, segment: &Segment, track: &Track) -> std::io::Result<()> {
        let info = track.info.as_ref().and_then(|info| info.segment(&segment.name));
        for channel in 0..segment.curves {
            let name = info.and_then(|info| info.channels.get(channel).cloned());
            let name = name.unwrap_or_else(|| format!("channel {channel}"));
            let values = segment.rows.iter().skip(channel).step_by(segment.curves);
            let values = values.map(|value| f64::from(*value));
            let points = segment.target.iter().copied().zip(values);
            self.scalars(&format!("{path}/{}", part(&name)), points)?;
        }
        let stamps = track.ticks.iter().map(|(_, stamp)| *stamp);
        let valid = segment.state.iter();
        let ages = segment.age_ns.iter().zip(valid.clone()).map(|(age, state)| match state {
            StepValidity::Valid => *age as f64 / 1e6,
            _ => f64::NAN,
        });
        self.scalars(&format!("{path}/age_ms"), stamps.clone().zip(ages))?;
        let valid = valid.map(|state| f64::from(u8::from(*state == StepValidity::Valid)));
        self.scalars(&format!("{path}/valid"), stamps.zip(valid))
    }

    /// Adds the commands of an episode. Per joint: the rows of each chunk at their instants, those that were late, the
    /// commands, and the seams. Per group: the chunks that were refused, with their reasons, and the stages.
    fn commands(&mut self, episode: &str, groups: &[GroupTrack]) -> std::io::Result<()> {
        for group in groups {
            let path = format!("{}/commands/{}", part(episode), part(&group.name));
            for (joint, name) in group.joints.iter().enumerate() {
                let path = format!("{path}/{}", part(name));
                // Neighbours have different colours.
                for (turn, marker) in [(0, CHUNK), (1, NEXT_CHUNK)] {
                    let rows = group.rows(joint, false).filter(|(place, ..)| place % 2 == turn);
                    self.points(&format!("{path}/chunks_{turn}"), marker, rows)?;
                }
                self.points(&format!("{path}/late"), LATE, group.rows(joint, true))?;
                let seams = group.commands(joint).filter(|(tick, _)| tick.turns && tick.sends);
                let seams = seams.map(|(tick, value)| (0, tick.stamp, value));
                self.points(&format!("{path}/seams"), SEAM, seams)?;
                self.scalars(&format!("{path}/command"), group.line(joint))?;
            }
            let refused = group.chunks.iter().filter_map(|chunk| {
                let reason = chunk.refused.as_ref()?;
                Some((chunk.found, format!("chunk {} refused: {reason}", chunk.sequence)))
            });
            self.texts(&format!("{path}/refused"), refused);
            let begins = group.ticks.chunk_by(|a, b| a.stage == b.stage);
            let begins = begins.map(|ticks| (ticks[0].stamp, ticks[0].stage.word().to_owned()));
            self.texts(&format!("{path}/stage"), begins);
        }
        Ok(())
    }

    /// Values that are drawn as points.
    fn points(
        &mut self,
        path: &str,
        marker: (&'static str, [u8; 3]),
        points: impl Iterator<Item = (usize, Stamp, f64)>,
    ) -> std::io::Result<()> {
        self.scalars(path, points.map(|(_, stamp, value)| (stamp, value)))?;
        if let Some(entity) = self.entities.last_mut() {
            entity.marker = Some(marker);
        }
        Ok(())
    }

    /// Texts over time.
    fn texts(&mut self, path: &str, texts: impl Iterator<Item = (Stamp, String)>) {
        let (times_ns, items) = texts.map(|(stamp, text)| (stamp.nanos(), text)).unzip();
        self.entities.push(Entity { times_ns, items, ..Entity::new(path, "texts") });
    }

    /// Values over time, without those that are not finite. Behind a value, the first of these begins a gap.
    fn scalars(
        &mut self,
        path: &str,
        points: impl Iterator<Item = (Stamp, f64)>,
    ) -> std::io::Result<()> {
        let mut entity = Entity::new(path, "scalars");
        let mut bytes = Vec::new();
        let mut is_value = false;
        for (stamp, value) in points {
            let was_value = std::mem::replace(&mut is_value, value.is_finite());
            if is_value {
                entity.times_ns.push(stamp.nanos());
                bytes.extend(value.to_le_bytes());
            } else if was_value {
                entity.gaps_ns.push(stamp.nanos());
            }
        }
        entity.file = Some(self.file(&bytes)?);
        self.entities.push(entity);
        Ok(())
    }

    /// The pictures or grids of a segment that are valid.
    fn pictures(&mut self, path: &str, segment: &Segment, track: &Track) -> std::io::Result<()> {
        let Some(info) = &track.info else { return Ok(()) };
        let mut entity: Option<Entity> = None;
        for kept in &track.kept {
            let Some(step) = kept.steps.get(&segment.name).filter(|step| step.valid) else {
                continue;
            };
            let Some(shown) = shown(segment, info, kept) else { return Ok(()) };
            let of = |kind| Entity::new(path, kind);
            let (like, bytes) = match shown {
                Shown::Image { size: [width, height], rgb } => {
                    (Entity { width, height, ..of(kind::IMAGE) }, rgb)
                }
                Shown::Depth { size: [width, height], distances } => {
                    (Entity { width, height, ..of(kind::DEPTH) }, bytes_of(distances.into_iter()))
                }
                Shown::Grid(grid) => {
                    (Entity { size_m: grid.size_m, ..of(kind::VOXELS) }, voxels(&grid))
                }
            };
            let file = self.file(&bytes)?;
            let entity = entity.get_or_insert(like);
            entity.times_ns.push(step.target.nanos());
            entity.items.push(file);
        }
        self.entities.extend(entity);
        Ok(())
    }
}

/// The centre of each voxel \[m\] and its first value.
fn voxels(grid: &Voxels) -> Vec<u8> {
    let row = |(place, values): &([usize; 3], Vec<f32>)| -> [f32; 4] {
        let center = |axis: usize| grid.origin_m[axis] + grid.size_m * (place[axis] as f64 + 0.5);
        let value = values.first().copied().unwrap_or(0.0);
        [center(0) as f32, center(1) as f32, center(2) as f32, value]
    };
    bytes_of(grid.voxels.iter().flat_map(row))
}

fn bytes_of(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

impl Entity {
    fn new(path: &str, kind: &'static str) -> Self {
        Entity {
            path: path.to_owned(),
            kind,
            times_ns: Vec::new(),
            gaps_ns: Vec::new(),
            file: None,
            marker: None,
            items: Vec::new(),
            width: 0,
            height: 0,
            size_m: 0.0,
        }
    }
}

/// A name as a part of an entity's path: Rerun escapes what is no letter, digit or one of `_-.` by `\`.
fn part(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.chars().flat_map(|c| (!plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests;
