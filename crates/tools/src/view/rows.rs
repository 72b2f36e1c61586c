//! Pages of stores of rows: every stream at its own stamps.

use std::path::Path;

use super::command_parts;
use super::source::{ViewError, which};
use super::store::{self, About};
use super::track::{MAX_TICKS, Track};
use super::{ViewOptions, choose, of_rows, task_texts};
use crate::inspect::{GAP_FACTOR, Intervals, Series};
use crate::report::{Page, Section, Table, Timeline, Tone, counted, number, significant};
use robocache_core::encoder::kind;
use robocache_core::message::{SegmentInfo, SegmentRead, TensorInfo, TensorRead};
use robocache_data::store::read::{self, Array};
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;

/// Most rows of a ring whose stamps are read: an hour at 1 kHz.
const MAX_STAMPS: u64 = 4_000_000;
/// The kinds of spans of the timeline.
const KINDS: [(&str, Tone); 2] = [("rows", Tone::Good), ("gap", Tone::Bad)];

/// A store of rows.
struct RowStore {
    episodes: Vec<About>,
    rings: Vec<RingRows>,
    info: TensorInfo,
}

/// The rows of a ring.
struct RingRows {
    name: String,
    is_vector: bool,
    dtype: DType,
    rows: Array,
    stamp: Array,
    epoch: Array,
    /// Flag per row: true if a later message replaced the row. Such a row is not shown.
    replaced: Array,
    /// Of sparse grids: voxels in use, and where they are.
    count: Option<Array>,
    coordinates: Option<Array>,
    /// For each episode its first row, and the one after its last.
    episodes: Vec<[u64; 2]>,
}

/// Makes the page of a store of rows.
///
/// # Errors
/// It cannot be read, or there is no such episode.
pub(super) fn page(path: &Path, options: &ViewOptions) -> Result<Page, ViewError> {
    let wrong = |found| ViewError::NoTensors { path: path.to_owned(), found };
    let mut store = RowStore::open(path).map_err(wrong)?;
    let names: Vec<_> = store.episodes.iter().map(|about| about.name.clone()).collect();
    let chosen = choose(&names, options, path)?;
    let mut page = Page::new("robocache view");
    page.about(&path.display().to_string());
    page.tile(&store.episodes.len().to_string(), "episodes");
    page.tile(&store.rings.len().to_string(), "streams and groups");
    let rows: u64 = store.rings.iter().map(|ring| ring.rows.rows()).sum();
    page.tile(&rows.to_string(), "rows");
    match store.episodes.as_slice() {
        [] => {}
        [about] => {
            let task = task_texts(about.task.as_deref(), &about.tasks);
            if !task.is_empty() {
                page.about(&format!("Task: {task}"));
            }
        }
        _ => _ = page.add(store.list(&chosen)),
    }
    let budget = options.budget / (chosen.len() * store.rings.len()).max(1) as u64;
    let mut add = |at: usize, section: Section| {
        let title = match chosen.len() {
            1 => section.title().to_owned(),
            _ => format!("{}: {}", names[at], section.title()),
        };
        page.add(section.titled(&title));
    };
    for at in &chosen {
        let sections = store.sections(*at, budget, options.pictures).map_err(wrong)?;
        sections.into_iter().for_each(|section| add(*at, section));
    }
    for at in &chosen {
        let groups = super::commands::of_store(path, *at).map_err(wrong)?;
        groups.iter().for_each(|group| add(*at, command_parts::commands(group)));
    }
    let mut configuration = Section::new("Configuration");
    configuration.details(&format!("robocache {}", store.info.version), &store.info.config);
    page.add(configuration);
    Ok(page)
}

impl RowStore {
    fn open(path: &Path) -> Result<Self, String> {
        let root = read::about(path, store::ROWS)?;
        let text = |key: &str| root[key].as_str().unwrap_or_default().to_owned();
        let mut info = TensorInfo {
            version: text("version"),
            config: text("configuration"),
            config_file: "the configuration of the store".to_owned(),
            ..TensorInfo::default()
        };
        let episodes = store::listed(&root)?;
        let mut rings = Vec::new();
        let streams = path.join("streams");
        for stream in read::members(&streams)? {
            let groups = read::members(&streams.join(&stream))?;
            for group in &groups {
                let name = match groups.len() {
                    1 => stream.clone(),
                    _ => format!("{stream}/{group}"),
                };
                let folder = streams.join(&stream).join(group);
                rings.push(RingRows::open(&folder, name, &mut info.segments)?);
            }
        }
        Ok(RowStore { episodes, rings, info })
    }

    /// All episodes.
    fn list(&self, chosen: &[usize]) -> Section {
        let mut section = Section::new("Episodes");
        let mut table = Table::new(&["episode", "task", "shown below", "rows"]).texts(3);
        for (at, about) in self.episodes.iter().enumerate() {
            let rows = |ring: &RingRows| ring.episodes.get(at).map_or(0, |[from, to]| to - from);
            let rows: u64 = self.rings.iter().map(rows).sum();
            let shown = if chosen.contains(&at) { "yes" } else { "" };
            let task = task_texts(about.task.as_deref(), &about.tasks);
            table.row(&[about.name.as_str(), &task, shown, &rows.to_string()]);
        }
        section.table(&table);
        section
    }

    /// The sections of an episode. `budget`: bytes that are read of each ring.
    fn sections(
        &mut self,
        episode: usize,
        budget: u64,
        pictures: usize,
    ) -> Result<Vec<Section>, String> {
        let stamps = self.rings.iter_mut().map(|ring| ring.stamps(episode));
        let stamps: Vec<Vec<Stamp>> = stamps.collect::<Result<_, _>>()?;
        let origin = stamps.iter().flatten().min().copied().unwrap_or(Stamp::ZERO);
        let mut sections = vec![over_time(&mut self.rings, episode, &stamps, origin)?];
        let mut tracks = Vec::new();
        for (ring, stamps) in self.rings.iter_mut().zip(&stamps) {
            let gap_ns = gap_ns(stamps.iter().copied());
            let mut track = Track::of_rows(self.info.clone(), origin, gap_ns);
            ring.read(episode, budget, pictures, &mut track)?;
            tracks.push(track);
        }
        sections.extend(of_rows(&tracks));
        Ok(sections)
    }
}

/// Two stamps of a stream that are further apart have a gap between them \[ns\].
pub(super) fn gap_ns(stamps: impl Iterator<Item = Stamp>) -> i64 {
    let mut series = Series::default();
    stamps.for_each(|stamp| series.take(stamp));
    limit_ns(&series.finish())
}

fn limit_ns(found: &Intervals) -> i64 {
    let usual = found.intervals.as_ref();
    usual.map_or(i64::MAX, |told| (told.p50_ns as f64 * GAP_FACTOR) as i64)
}

/// When each ring had rows, and how many.
fn over_time(
    rings: &mut [RingRows],
    episode: usize,
    stamps: &[Vec<Stamp>],
    origin: Stamp,
) -> Result<Section, String> {
    let mut section = Section::new("Rows over time");
    let last = stamps.iter().flatten().max().copied().unwrap_or(origin);
    let seconds = |stamp: Stamp| stamp.since(origin) as f64 / 1e9;
    let range = (0.0, seconds(last).max(1e-9));
    let mut timeline = Timeline::new("rows of each stream", "time [s]", range, &KINDS);
    let head = ["stream", "rows", "replaced", "usual rate", "gaps", "longest gap"];
    let mut table = Table::new(&head).texts(1);
    let mut cut = 0;
    let mut epochs = 0;
    for (ring, stamps) in rings.iter_mut().zip(stamps) {
        let mut series = Series::default();
        stamps.iter().for_each(|stamp| series.take(*stamp));
        let found = series.finish();
        let limit = limit_ns(&found);
        let spans = stamps.windows(2).filter(|pair| pair[1] > pair[0]).map(|pair| {
            let is_gap = pair[1].since(pair[0]) > limit;
            (seconds(pair[0]), seconds(pair[1]), usize::from(is_gap))
        });
        let end = stamps.last().map(|last| (seconds(*last), seconds(*last), 0));
        timeline.row(&ring.name, spans.chain(end));
        let [from, to] = ring.range(episode);
        if to > from {
            epochs = epochs.max(ring.epoch.number(to - 1)? - ring.epoch.number(from)?);
        }
        cut += u64::from(to - from > MAX_STAMPS);
        let replaced = (to - from).min(MAX_STAMPS) - stamps.len() as u64;
        let none = || "\u{2013}".to_owned();
        let ms =
            |gap: &crate::inspect::Gap| format!("{} ms", number(gap.length_ns as f64 / 1e6, 1));
        table.row(&[
            ring.name.clone(),
            (to - from).to_string(),
            replaced.to_string(),
            found.rate_hz.map_or_else(none, |rate_hz| format!("{} Hz", significant(rate_hz, 4))),
            found.gaps.to_string(),
            found.longest.first().map_or_else(none, ms),
        ]);
    }
    section.figure(
        &timeline,
        "The stamps of the rows. A gap is longer than two and a half times the usual interval.",
    );
    section.table(&table);
    if cut > 0 {
        let streams = counted(cut, "stream has", "streams have");
        section
            .text(&format!("{streams} more rows: the times are those of the first {MAX_STAMPS}."));
    }
    if epochs > 0 {
        let times = counted(epochs as u64, "time", "times");
        section.text(&format!(
            "The clock began again {times}: stamps of before and after are not comparable."
        ));
    }
    Ok(section)
}

impl RingRows {
    /// Opens a ring, and adds what its rows mean.
    fn open(folder: &Path, name: String, infos: &mut Vec<SegmentInfo>) -> Result<Self, String> {
        let rows = Array::of(&folder.join("rows"))?;
        let ring = &rows.attributes["ring"];
        let wrong = |why: &str| format!("{}: {why}", folder.display());
        let dtype = rows.dtype().ok_or_else(|| wrong("rows with elements that no tensor has"))?;
        let mut info: SegmentInfo = serde_json::from_value(ring["segment"].clone())
            .map_err(|error| wrong(&format!("what its rows mean cannot be read: {error}")))?;
        let channels: Vec<String> =
            serde_json::from_value(ring["channels"].clone()).map_err(|error| {
                wrong(&format!("the names of its channels cannot be read: {error}"))
            })?;
        let unit = |channel: &String| {
            let at = info.channels.iter().position(|known| known == channel);
            at.map_or(String::new(), |at| info.unit(at).to_owned())
        };
        info.units = channels.iter().map(unit).collect();
        info.channels = channels;
        info.name.clone_from(&name);
        dtype.name().clone_into(&mut info.dtype);
        info.shape = std::iter::once(1).chain(rows.shape[1..].iter().copied()).collect();
        (info.target_offsets_ns, info.lag_ns) = (vec![0], 0);
        let beside = |what: &str, bytes: usize| -> Result<Option<Array>, String> {
            let path = folder.join(what);
            path.exists().then(|| Array::open(&path, bytes)).transpose()
        };
        let coordinates = folder.join("coordinates");
        let coordinates = coordinates.exists().then(|| Array::of(&coordinates)).transpose()?;
        if let Some(places) = &coordinates {
            infos.push(SegmentInfo {
                name: format!("{name}.coordinates"),
                encoder: kind::VOXEL_COORDINATES.into(),
                dtype: "i32".into(),
                shape: std::iter::once(1).chain(places.shape[1..].iter().copied()).collect(),
                ..info.clone()
            });
        }
        let is_vector = info.encoder == kind::VECTOR;
        infos.push(info);
        let episodes = read::spans(folder, rows.rows())?;
        let episodes = episodes.into_iter().map(|span| [span.start, span.end]).collect();
        Ok(RingRows {
            stamp: Array::open(&folder.join("stamp_ns"), 8)?,
            epoch: Array::open(&folder.join("epoch"), 8)?,
            replaced: Array::open(&folder.join("replaced"), 1)?,
            count: beside("count", 4)?,
            coordinates,
            name,
            is_vector,
            dtype,
            rows,
            episodes,
        })
    }

    fn range(&self, episode: usize) -> [u64; 2] {
        self.episodes.get(episode).copied().unwrap_or_default()
    }

    fn is_replaced(&mut self, row: u64) -> Result<bool, String> {
        Ok(self.replaced.row(row)? != [0])
    }

    /// The stamps of an episode's rows.
    fn stamps(&mut self, episode: usize) -> Result<Vec<Stamp>, String> {
        let [from, to] = self.range(episode);
        let mut stamps = Vec::new();
        for at in from..to.min(from + MAX_STAMPS) {
            if !self.is_replaced(at)? {
                stamps.push(Stamp::from_nanos(self.stamp.number(at)?));
            }
        }
        Ok(stamps)
    }

    /// Reads the rows of an episode into a track: the vectors up to `budget` bytes, and `pictures` whole rows.
    fn read(
        &mut self,
        episode: usize,
        budget: u64,
        pictures: usize,
        track: &mut Track,
    ) -> Result<(), String> {
        let [from, to] = self.range(episode);
        let bytes = if self.is_vector { self.rows.row_bytes.max(1) as u64 } else { 1 };
        let most = (budget / bytes).clamp(1, MAX_TICKS as u64);
        let mut noted = Vec::new();
        let mut last = None;
        for at in which(to - from, most) {
            if last.replace(at).is_some_and(|last| last + 1 != at) {
                track.skip();
            }
            if self.is_replaced(from + at)? {
                continue;
            }
            let is_vector = self.is_vector;
            self.row(from + at, is_vector, |row| {
                track.note_read(row);
            })?;
            noted.push(from + at);
        }
        for place in track.spread(pictures) {
            self.row(noted[place], true, |row| track.keep_read(place, row))?;
        }
        Ok(())
    }

    /// Reads a row as a tensor of one step, with its elements if it is `whole`.
    fn row(
        &mut self,
        row: u64,
        whole: bool,
        take: impl FnOnce(&TensorRead<'_>),
    ) -> Result<(), String> {
        let stamp = Stamp::from_nanos(self.stamp.number(row)?);
        let of = |name, dtype, shape: &[usize], bytes, count| SegmentRead {
            name,
            dtype,
            shape: std::iter::once(1).chain(shape[1..].iter().copied()).collect(),
            byte_offset: 0,
            valid: &[1],
            targets: vec![stamp],
            ages_ns: vec![0],
            counts: vec![count],
            bytes,
        };
        let count = match &mut self.count {
            Some(count) => {
                let bytes = count.row(row)?.first_chunk().copied();
                bytes.map_or(0, u32::from_le_bytes)
            }
            None => 0,
        };
        let places_bytes = self.coordinates.as_ref().map_or(0, |places| places.row_bytes);
        let len = self.rows.row_bytes + places_bytes;
        let mut segments = Vec::new();
        let places = format!("{}.coordinates", self.name);
        if let Some(coordinates) = &mut self.coordinates {
            let shape = coordinates.shape.clone();
            let bytes = if whole { coordinates.row(row)? } else { &[] };
            segments.push(of(places, DType::I32, &shape, bytes, count));
        }
        let shape = self.rows.shape.clone();
        let bytes = if whole { self.rows.row(row)? } else { &[] };
        segments.push(of(self.name.clone(), self.dtype, &shape, bytes, count));
        take(&TensorRead { stamp, tick: row, segments, len });
        Ok(())
    }
}
