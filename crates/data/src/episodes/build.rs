//! Episodes of columns, checked.

use super::memory::numbers;
use super::tasks::tasks_of;
use super::{
    About, Column, EpisodeError, Episodes, Ring, RowColumn, RowMeaning, Span, Stream, finite,
};
use robocache_ops::windows::{SpanRows, bounds_of_times};

/// Episodes before they are checked.
pub struct RawEpisodes {
    /// The text of the configuration; empty if unknown.
    pub configuration: String,
    /// Of [`Episodes`].
    pub period_ns: Option<i64>,
    /// The episodes, in their order.
    pub episodes: Vec<About>,
    /// The streams.
    pub streams: Vec<RawStream>,
}

/// The rows of a stream.
pub struct RawStream {
    /// Meaning of the rows.
    pub means: RowMeaning,
    /// Its rings.
    pub rings: Vec<RawRing>,
}

/// The rows of a ring. The columns are those of [`Ring`].
pub struct RawRing {
    /// The encoded rows.
    pub rows: RowColumn,
    /// int64 per row.
    pub stamp_ns: Column,
    /// int64 per row.
    pub received_ns: Column,
    /// int64 per row.
    pub left_ns: Column,
    /// A byte per row.
    pub replaced: Column,
    /// int64 per row: the number of the clock's epoch. `None` if there is one epoch, number 0.
    pub epoch: Option<Column>,
    /// A byte per row.
    pub until_next: Option<Column>,
    /// int64 per row and input.
    pub until_ns: Option<Column>,
    /// uint32 per row.
    pub count: Option<Column>,
    /// int32 per row and number.
    pub coordinates: Option<Column>,
    /// For each episode the row after its last one.
    pub ends: Vec<u64>,
}

/// Description of episodes beside their columns.
#[derive(serde::Deserialize, serde::Serialize)]
pub struct Described {
    /// The text of the configuration; empty if unknown.
    #[serde(default)]
    pub configuration: String,
    /// Of [`Episodes`].
    #[serde(default)]
    pub period_ns: Option<i64>,
    /// The episodes, in their order.
    pub episodes: Vec<About>,
    /// The texts of all tasks; only for reports.
    #[serde(default, skip_deserializing)]
    pub tasks: Vec<String>,
    /// The epochs; only for reports.
    #[serde(default, skip_deserializing)]
    pub spans: Vec<Span>,
    /// The streams.
    pub streams: Vec<RowMeaning>,
}

impl Described {
    /// Reads what this writes: JSON.
    ///
    /// # Errors
    /// It is something else.
    pub fn read(text: &str) -> Result<Self, EpisodeError> {
        serde_json::from_str(text)
            .map_err(|error| EpisodeError::of("episodes", "names and streams", error))
    }
}

impl Episodes {
    /// Description of the episodes, as JSON.
    pub fn described(&self) -> String {
        let described = Described {
            configuration: self.configuration.clone(),
            period_ns: self.period_ns,
            episodes: self.episodes.clone(),
            tasks: self.tasks.clone(),
            spans: self.spans.clone(),
            streams: self.streams.iter().map(|stream| stream.means.clone()).collect(),
        };
        serde_json::to_string(&described).unwrap_or_default()
    }

    /// Episodes of columns. Rows of an episode must be sorted by epoch, then by stamp.
    ///
    /// # Errors
    /// Columns contradict each other, or rows are not finite.
    pub fn new(raw: RawEpisodes) -> Result<Self, EpisodeError> {
        let RawEpisodes { configuration, period_ns, episodes, streams } = raw;
        if let Some(found) = period_ns.filter(|period| *period < 1) {
            return Err(EpisodeError::of("period_ns", "1 or more", found));
        }
        let mut spans = Vec::new();
        let rings = || streams.iter().flat_map(|s| s.rings.iter().map(move |r| (&s.means.name, r)));
        let epochs = rings().map(|(name, ring)| epochs(name, ring, episodes.len()));
        let epochs = epochs.collect::<Result<Vec<_>, _>>()?;
        for episode in 0..episodes.len() {
            let of_episode = epochs.iter().flat_map(|ring| &ring[episode]);
            let mut known: Vec<i64> = of_episode.map(|(epoch, _)| *epoch).collect();
            known.sort_unstable();
            known.dedup();
            if known.is_empty() {
                known.push(0);
            }
            let episode = u32::try_from(episode)
                .map_err(|_| EpisodeError::of("episodes", "fewer than 2^32", episodes.len()))?;
            spans.extend(known.into_iter().map(|epoch| Span {
                episode,
                epoch,
                begin_ns: i64::MAX,
                end_ns: i64::MIN,
            }));
        }
        let mut epochs = epochs.into_iter();
        let mut done = Vec::new();
        for stream in streams {
            let mut rings = Vec::new();
            for raw in stream.rings {
                let of_ring = epochs.next().unwrap_or_default();
                let rows = |span: &Span| {
                    let found = of_ring[span.episode as usize].iter();
                    let found = found.clone().find(|(epoch, _)| *epoch == span.epoch);
                    found.map_or(SpanRows::default(), |(_, rows)| *rows)
                };
                let rows: Vec<SpanRows> = spans.iter().map(rows).collect();
                rings.push(Ring::new(raw, rows)?);
            }
            done.push(Stream::new(stream.means, rings));
        }
        let made = Self::checked(configuration, episodes, spans, done)?;
        let episodes = Episodes { period_ns, ..made };
        episodes.streams.iter().try_for_each(finite::check)?;
        Ok(episodes)
    }

    /// Episodes whose rings know their spans. Rows are not looked at.
    pub(super) fn checked(
        configuration: String,
        episodes: Vec<About>,
        mut spans: Vec<Span>,
        mut streams: Vec<Stream>,
    ) -> Result<Self, EpisodeError> {
        streams.sort_by(|a, b| a.means.name.cmp(&b.means.name));
        if let Some(pair) = streams.windows(2).find(|pair| pair[0].means.name == pair[1].means.name)
        {
            return Err(EpisodeError::of("streams", "names that differ", &pair[0].means.name));
        }
        for span in &mut spans {
            (span.begin_ns, span.end_ns) = (i64::MAX, i64::MIN);
        }
        for stream in &streams {
            // Streams that contradict themselves are found before windows are asked for.
            stream.means.windows(stream.rings.len())?;
            for (number, ring) in stream.rings.iter().enumerate() {
                check_ring(&stream.means, number, ring)?;
                let received: &[i64] = numbers(&ring.received_ns, "received_ns")?;
                for (span, rows) in spans.iter_mut().zip(&ring.spans) {
                    let came = received[rows.range()].iter().filter(|ns| **ns != i64::MAX);
                    for ns in came {
                        (span.begin_ns, span.end_ns) =
                            (span.begin_ns.min(*ns), span.end_ns.max(*ns));
                    }
                }
            }
        }
        for span in &mut spans {
            if span.begin_ns > span.end_ns {
                // No row came: the epoch has no instants. One row at 0 is from 0 to 0.
                (span.begin_ns, span.end_ns) = (0, -1);
            }
        }
        let tasks = tasks_of(&episodes);
        let contract = None;
        let period_ns = None;
        Ok(Episodes { configuration, contract, period_ns, episodes, tasks, spans, streams })
    }
}

impl Ring {
    /// A ring that knows its spans.
    pub(super) fn new(raw: RawRing, spans: Vec<SpanRows>) -> Result<Self, EpisodeError> {
        let (received, left): (&[i64], &[i64]) =
            (numbers(&raw.received_ns, "received_ns")?, numbers(&raw.left_ns, "left_ns")?);
        let rows = raw.stamp_ns.bytes().len() / size_of::<i64>();
        for (what, found) in [("received_ns", received.len()), ("left_ns", left.len())] {
            if found != rows {
                return Err(EpisodeError::of(what, format!("{rows} rows"), found));
            }
        }
        let inside = |span: &SpanRows| span.begin <= span.end && span.end <= rows as u64;
        if let Some(span) = spans.iter().find(|span| !inside(span)) {
            let found = format!("{} to {}", span.begin, span.end);
            return Err(EpisodeError::of("rows of an epoch", format!("within {rows}"), found));
        }
        let filled = spans.iter().filter(|span| span.begin < span.end);
        let in_order = filled.clone().zip(filled.skip(1)).all(|(a, b)| a.end <= b.begin);
        if !in_order {
            let expected = "those of one epoch after those of the epoch before";
            return Err(EpisodeError::of("rows of an epoch", expected, "others"));
        }
        let (received_from, left_until) = bounds_of_times(received, left, &spans);
        Ok(Ring {
            rows: raw.rows,
            stamp_ns: raw.stamp_ns,
            received_ns: raw.received_ns,
            left_ns: raw.left_ns,
            replaced: raw.replaced,
            until_next: raw.until_next,
            until_ns: raw.until_ns,
            count: raw.count,
            coordinates: raw.coordinates,
            spans,
            received_from,
            left_until,
        })
    }
}

/// Per episode: its epochs in a ring, and the rows of each.
type Epochs = Vec<Vec<(i64, SpanRows)>>;

fn epochs(name: &str, ring: &RawRing, episodes: usize) -> Result<Epochs, EpisodeError> {
    let rows = ring.stamp_ns.bytes().len() / size_of::<i64>();
    let what = |what: &str| format!("{what} of '{name}'");
    if ring.ends.len() != episodes {
        let expected = format!("{episodes} episodes");
        return Err(EpisodeError::of(what("episode_ends"), expected, ring.ends.len()));
    }
    let sorted = ring.ends.is_sorted() && ring.ends.last().copied().unwrap_or(0) == rows as u64;
    if !sorted {
        let found = format!("{:?}", ring.ends.last());
        return Err(EpisodeError::of(what("episode_ends"), format!("ends up to {rows}"), found));
    }
    let epoch: Option<&[i64]> =
        ring.epoch.as_ref().map(|column| numbers(column, "epoch")).transpose()?;
    if let Some(found) = epoch.map(<[i64]>::len).filter(|found| *found != rows) {
        return Err(EpisodeError::of(what("epoch"), format!("{rows} rows"), found));
    }
    let mut begin = 0;
    let mut of_episodes = Vec::with_capacity(episodes);
    for end in &ring.ends {
        let mut found = Vec::new();
        while begin < *end {
            let number = epoch.map_or(0, |epoch| epoch[begin as usize]);
            let same = |rows: &[i64]| rows.partition_point(|other| *other <= number) as u64;
            let until =
                epoch.map_or(*end, |epoch| begin + same(&epoch[begin as usize..*end as usize]));
            if until <= begin || found.last().is_some_and(|(last, _)| *last >= number) {
                return Err(EpisodeError::of(what("epoch"), "rows sorted by epoch", number));
            }
            found.push((number, SpanRows { begin, end: until }));
            begin = until;
        }
        of_episodes.push(found);
    }
    Ok(of_episodes)
}

/// Checks the sizes of the columns, and that stamps do not go back.
fn check_ring(means: &RowMeaning, number: usize, ring: &Ring) -> Result<(), EpisodeError> {
    let rows = ring.len();
    // Sizes of a step were checked; those of all rows may be more than memory can be.
    let of_rows = |bytes: usize| bytes.saturating_mul(rows);
    let row_bytes = means.row_len(number) * means.row_dtypes[number].size();
    let inputs = means.max_age_ns_of_inputs.as_ref().map(Vec::len);
    let coordinates = means.coordinates_shape.as_ref().map(|_| means.coordinates_len());
    let len = |column: &Option<Column>| column.as_ref().map(|column| column.bytes().len());
    let expected = [
        ("stamp_ns", Some(of_rows(8)), Some(ring.stamp_ns.bytes().len())),
        ("rows", Some(of_rows(row_bytes)), Some(ring.rows.byte_len())),
        ("replaced", Some(rows), Some(ring.replaced.bytes().len())),
        ("until_next", means.plans.then_some(rows), len(&ring.until_next)),
        ("until_ns", inputs.map(|inputs| of_rows(8 * inputs)), len(&ring.until_ns)),
        ("count", coordinates.map(|_| of_rows(4)), len(&ring.count)),
        ("coordinates", coordinates.map(|numbers| of_rows(4 * numbers)), len(&ring.coordinates)),
    ];
    let bytes = |bytes: Option<usize>| bytes.map_or("none".to_owned(), |b| format!("{b} bytes"));
    for (what, expected, found) in expected {
        if expected != found {
            let what = format!("{what} of '{}' in group {number}", means.name);
            return Err(EpisodeError::of(what, bytes(expected), bytes(found)));
        }
    }
    if let (Some(column), Some(shape)) = (&ring.count, &means.coordinates_shape) {
        let counts: &[u32] = numbers(column, "count")?;
        let voxels = shape.first().copied().unwrap_or(0);
        if let Some(count) = counts.iter().find(|count| **count as usize > voxels) {
            let what = format!("count of '{}'", means.name);
            return Err(EpisodeError::of(what, format!("{voxels} voxels at most"), count));
        }
    }
    let stamps: &[i64] = numbers(&ring.stamp_ns, "stamp_ns")?;
    match ring.spans.iter().find(|span| !stamps[span.range()].is_sorted()) {
        Some(span) => {
            let what = format!("stamp_ns of '{}' in group {number}", means.name);
            let found = format!("others in rows {} to {}", span.begin, span.end);
            Err(EpisodeError::of(what, "stamps that do not go back", found))
        }
        None => Ok(()),
    }
}
