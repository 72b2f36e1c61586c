//! Episodes for windows on a GPU: where the rows of each stream are, and batches from there.

use std::sync::{Arc, Mutex};

use super::memory::{Bytes, Column};
use super::{EpisodeError, Episodes, Planned, Ring, WindowBatch, available};
use robocache_ops::device::shared::windows::SpanRows;
use robocache_ops::device::{Device, DeviceBuffer, PinnedBuffer, PinnedTurns, Stream, bytes_of};
use robocache_ops::parallel;
use robocache_ops::sync::lock;
use robocache_ops::windows::cuda::{DeviceItems, DeviceWindows, RingPointers, SpanPointers};
use robocache_ops::windows::{Items, WindowLayout, WindowPlan, cpu};

/// Where the rows of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowMemory {
    /// In memory of the GPU.
    Device,
    /// In pinned memory of the host, where the GPU reads them.
    Pinned,
    /// In memory of the host or in mapped files. The host makes these windows and copies them.
    Mapped,
}

impl RowMemory {
    /// The name for users.
    pub const fn name(self) -> &'static str {
        match self {
            RowMemory::Device => "device",
            RowMemory::Pinned => "pinned",
            RowMemory::Mapped => "mapped",
        }
    }

    /// The one of a name; `None` for `auto`.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn of_name(name: &str) -> Result<Option<Self>, EpisodeError> {
        match name {
            "auto" => Ok(None),
            "device" => Ok(Some(RowMemory::Device)),
            "pinned" => Ok(Some(RowMemory::Pinned)),
            "mapped" => Ok(Some(RowMemory::Mapped)),
            _ => Err(EpisodeError::of("memory", "auto, device, pinned or mapped", name)),
        }
    }
}

/// Where rows go, and how much there is room for \[bytes\].
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// Per stream of the episodes; `None`: by its size.
    pub of_streams: Vec<Option<RowMemory>>,
    /// Memory of the GPU for all streams; by default half of what is free. Streams that were placed and what finds
    /// rows come first, even if they need more than this.
    pub device_bytes: Option<usize>,
    /// Pinned memory likewise; by default half of this process's share of what the host has available.
    pub pinned_bytes: Option<usize>,
}

/// Episodes whose windows a GPU makes. Stamps and what else is needed to find rows is always on the GPU.
pub struct EpisodesOnDevice {
    episodes: Arc<Episodes>,
    device: Arc<Device>,
    /// Per stream.
    kept: Vec<Kept>,
    spans: SpanPointers,
    /// What the pointers point to.
    buffers: Vec<Arc<DeviceBuffer>>,
}

struct Kept {
    memory: RowMemory,
    /// Empty if the rows are mapped.
    rings: Vec<RingPointers>,
}

/// Windows of episodes on a GPU, prepared.
pub struct DevicePlanned {
    episodes: Arc<EpisodesOnDevice>,
    planned: Planned,
    windows: DeviceWindows,
    /// The streams that the host makes: numbers in the plan, and a plan of each alone.
    mapped: Vec<(usize, WindowPlan)>,
    turns: PinnedTurns,
}

/// What is asked of a batch on a GPU.
#[derive(Clone, Copy, Debug)]
pub enum DeviceRequest<'a> {
    /// From arrays of the host.
    Host(WindowBatch<'a>),
    /// From arrays of the device.
    Device {
        /// Episodes and instants.
        items: DeviceItems<'a>,
        /// `[streams, windows]`: how much earlier each stream is taken \[ns\]. Empty for 0.
        latency_ns: &'a [i64],
    },
}

impl DeviceRequest<'_> {
    fn windows(&self) -> usize {
        match self {
            DeviceRequest::Host(request) => request.instants_ns.len(),
            DeviceRequest::Device { items, .. } => items.windows(),
        }
    }

    /// Whether a graph that repeats it reads what is there then: all of its numbers are on the device.
    fn is_replayable(&self) -> bool {
        match self {
            DeviceRequest::Device { items: DeviceItems::Device { .. }, latency_ns } => {
                latency_ns.is_empty()
            }
            DeviceRequest::Device { .. } | DeviceRequest::Host(_) => false,
        }
    }
}

/// Plans that a CUDA graph has: it may be replayed at any time, so their tables and rows are never freed.
static IN_GRAPHS: Mutex<Vec<Arc<DevicePlanned>>> = Mutex::new(Vec::new());

/// Windows whose batches may be under way at once before the host waits, if it makes some of their streams.
const TURNS: usize = 3;

/// Rows in pinned memory, and how many bytes they are: no memory has less than one.
struct Pinned(PinnedBuffer, usize);

impl Bytes for Pinned {
    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl EpisodesOnDevice {
    /// Takes rows to where they are to be. Columns in pinned memory replace those that were there; of rows on the
    /// GPU, the host keeps its copy.
    ///
    /// # Errors
    /// There is not so much memory, or the device fails.
    pub fn new(
        episodes: &Episodes,
        device: &Arc<Device>,
        room: &Room,
    ) -> Result<Self, EpisodeError> {
        let memory = choose(episodes, device, room)?;
        let mut episodes = episodes.clone();
        let mut buffers = Vec::new();
        let mut kept = Vec::with_capacity(memory.len());
        for (stream, memory) in episodes.streams.iter_mut().zip(memory) {
            let mut rings = Vec::new();
            if memory != RowMemory::Mapped {
                for ring in &mut stream.rings {
                    if memory == RowMemory::Pinned {
                        ring.rows = pinned(device, &ring.rows)?;
                        let coordinates = ring.coordinates.take();
                        ring.coordinates =
                            coordinates.map(|column| pinned(device, &column)).transpose()?;
                    }
                    let name = &stream.means.name;
                    rings.push(pointers(name, ring, memory, device, &mut buffers)?);
                }
            }
            kept.push(Kept { memory, rings });
        }
        let spans = spans(&episodes, device, &mut buffers)?;
        let episodes = Arc::new(episodes);
        Ok(EpisodesOnDevice { episodes, device: device.clone(), kept, spans, buffers })
    }

    /// The episodes, with the rows where they are now.
    pub fn episodes(&self) -> &Arc<Episodes> {
        &self.episodes
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Per stream of the episodes, where its rows are.
    pub fn memory(&self) -> impl Iterator<Item = RowMemory> {
        self.kept.iter().map(|kept| kept.memory)
    }

    /// Prepares windows on the device.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn plan(self: &Arc<Self>, planned: Planned) -> Result<DevicePlanned, EpisodeError> {
        let (mut rings, mut mapped) = (Vec::new(), Vec::new());
        for (at, (number, stream)) in planned.numbers().zip(planned.streams()).enumerate() {
            let kept = &self.kept[number];
            if kept.memory == RowMemory::Mapped {
                mapped.push((at, WindowPlan::new(vec![stream.clone()])?));
                rings.push(None);
            } else {
                rings.push(Some(kept.rings.clone()));
            }
        }
        let buffers = self.buffers.clone();
        let plan = planned.plan();
        let windows = DeviceWindows::new(&self.device, plan, &rings, self.spans, buffers)?;
        let turns = PinnedTurns::new(&self.device, TURNS);
        Ok(DevicePlanned { episodes: self.clone(), planned, windows, mapped, turns })
    }
}

impl DevicePlanned {
    /// The same windows on the host.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.episodes.device
    }

    /// Puts a batch on a stream, which writes it to `out`, an address and how many bytes there are. Nothing of the
    /// request is used after the call. If the host makes some of the streams, the call lasts as long, on `threads`
    /// threads. If the stream records a graph, the plan is kept for good: the graph may be replayed at any time.
    ///
    /// # Errors
    /// As for [`Planned::windows`]; the output is too short; a request of the device asks for a stream that the
    /// host makes or that is required; a graph is recorded of numbers of the host; the device fails.
    ///
    /// # Safety
    /// As for [`DeviceWindows::launch`].
    pub unsafe fn launch(
        self: &Arc<Self>,
        request: DeviceRequest<'_>,
        (out, bytes): (u64, usize),
        stream: &Stream,
        threads: usize,
    ) -> Result<(), EpisodeError> {
        let layout = self.planned.layout(request.windows())?;
        if bytes < layout.byte_len {
            let expected = format!("{} bytes for {} windows", layout.byte_len, layout.windows);
            return Err(EpisodeError::of("out", expected, bytes));
        }
        if stream.is_capturing()? {
            self.keep_for_graph(request)?;
        }
        let spans;
        let (items, latency_ns) = match request {
            DeviceRequest::Host(request) => {
                spans = self.planned.spans(&self.episodes.episodes, request)?;
                let instants = request.instants_ns;
                let (items, latency_ns) =
                    (DeviceItems::Host { spans: &spans, instants }, request.latency_ns);
                let own = Items { spans: &spans, instants, latency_ns };
                if !self.mapped.is_empty() && !instants.is_empty() {
                    self.check(own)?;
                    // SAFETY: the caller's promise is the same.
                    unsafe { self.write_mapped(own, &layout, out, stream, threads)? };
                }
                (items, latency_ns)
            }
            DeviceRequest::Device { items, latency_ns } => {
                self.check_device_items()?;
                (items, latency_ns)
            }
        };
        // SAFETY: the caller's promise is the same.
        unsafe { self.windows.launch(items, latency_ns, out, stream)? };
        Ok(())
    }

    /// Keeps the plan for a graph that is recorded, if that may have the request.
    fn keep_for_graph(self: &Arc<Self>, request: DeviceRequest<'_>) -> Result<(), EpisodeError> {
        if !request.is_replayable() {
            // The graph would have these very numbers, or read memory that later calls write.
            let found = "arrays of the host, or latency_ns, while a CUDA graph is recorded";
            return Err(EpisodeError::of("windows", "episodes and instants on the GPU", found));
        }
        let mut kept = lock(&IN_GRAPHS);
        if !kept.iter().any(|plan| Arc::ptr_eq(plan, self)) {
            kept.push(Arc::clone(self));
        }
        Ok(())
    }

    fn check(&self, items: Items<'_>) -> Result<(), EpisodeError> {
        let expected = self.planned.streams().len() * items.instants.len();
        let found = items.latency_ns.len();
        match found == 0 || found == expected {
            true => Ok(()),
            false => Err(EpisodeError::of("latencies", expected, found)),
        }
    }

    /// What episodes on the device do not allow.
    fn check_device_items(&self) -> Result<(), EpisodeError> {
        let expected = "episodes and instants as arrays of the host";
        if let Some((at, _)) = self.mapped.first() {
            let name = &self.planned.streams()[*at].name;
            let found = "arrays of a GPU, and its rows are mapped";
            return Err(EpisodeError::of(format!("windows of '{name}'"), expected, found));
        }
        if let Some(name) = self.planned.required().next() {
            let found = "arrays of a GPU, and it is required";
            return Err(EpisodeError::of(format!("windows of '{name}'"), expected, found));
        }
        Ok(())
    }

    /// Makes the windows of streams whose rows are mapped, and puts their copies on the stream.
    unsafe fn write_mapped(
        &self,
        items: Items<'_>,
        layout: &WindowLayout,
        out: u64,
        stream: &Stream,
        threads: usize,
    ) -> Result<(), EpisodeError> {
        let Items { spans, instants, latency_ns } = items;
        let count = instants.len();
        let numbers: Vec<usize> = self.planned.numbers().collect();
        for (at, plan) in &self.mapped {
            let own = plan.layout(count)?;
            let begin = layout.parts.iter().find(|part| part.stream == *at);
            let begin = begin.map_or(0, |part| part.byte_offset) as u64;
            let late = latency_ns.get(at * count..(at + 1) * count).unwrap_or_default();
            let items = Items { spans, instants, latency_ns: late };
            let rings = &self.episodes.episodes.streams[numbers[*at]].rings;
            let rows = rings.iter().map(Ring::view).collect::<Result<Vec<_>, _>>()?;
            self.turns.with::<EpisodeError>(own.byte_len, stream, |memory| {
                let bytes = &mut memory[..own.byte_len];
                cpu::windows(plan, &own, &[rows], items, bytes, threads)?;
                // SAFETY: `out` has the layout of all streams, and the memory is not written before its turn comes
                // again.
                unsafe { memory.send(own.byte_len, out + begin, stream)? };
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Where the rows of each stream go: the smallest streams first to the GPU, then to pinned memory.
fn choose(
    episodes: &Episodes,
    device: &Arc<Device>,
    room: &Room,
) -> Result<Vec<RowMemory>, EpisodeError> {
    let streams = &episodes.streams;
    let spans = episodes.spans.len();
    if ![0, streams.len()].contains(&room.of_streams.len()) {
        return Err(EpisodeError::of("memory", streams.len(), room.of_streams.len()));
    }
    let device_bytes = match room.device_bytes {
        Some(bytes) => bytes,
        None => device.free_bytes()? / 2,
    };
    let pinned_bytes = room.pinned_bytes.unwrap_or_else(|| available::bytes_of_process() / 2);
    let sizes: Vec<Size> = streams.iter().map(|stream| Size::of(&stream.rings, spans)).collect();
    // The table of spans, of an epoch and an instant each, is always there.
    let table = size_of::<u32>() * (episodes.episodes.len() + 1) + 2 * size_of::<i64>() * spans;
    let left = [device_bytes.saturating_sub(table), pinned_bytes];
    Ok(place(&sizes, &room.of_streams, left))
}

/// Bytes of a stream.
#[derive(Clone, Copy)]
struct Size {
    /// Rows and coordinates.
    rows: usize,
    /// What finds them, which is always on the GPU if it reads the rows.
    index: usize,
}

impl Size {
    fn of(rings: &[Ring], spans: usize) -> Self {
        let len = |column: &Column| column.bytes().len();
        let of_ring = |ring: &Ring| len(&ring.rows) + ring.coordinates.as_ref().map_or(0, len);
        let rows = rings.iter().map(of_ring).sum();
        // Each row has two bounds beside its columns.
        let bounds = |ring: &Ring| 2 * size_of::<i64>() * ring.len();
        let all =
            rings.iter().map(|ring| ring.byte_len() + bounds(ring) + size_of::<SpanRows>() * spans);
        Size { rows, index: all.sum::<usize>() - rows }
    }
}

/// Where streams go, given what is left on the device and of pinned memory: first those that were placed.
fn place(
    sizes: &[Size],
    of_streams: &[Option<RowMemory>],
    [mut device_left, mut pinned_left]: [usize; 2],
) -> Vec<RowMemory> {
    let asked = |at: usize| of_streams.get(at).copied().flatten();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|at| (asked(*at).is_none(), sizes[*at].rows + sizes[*at].index));
    let mut found = vec![RowMemory::Mapped; sizes.len()];
    for at in order {
        let Size { rows, index } = sizes[at];
        let memory = asked(at).unwrap_or_else(|| {
            if rows + index <= device_left {
                RowMemory::Device
            } else if rows <= pinned_left {
                RowMemory::Pinned
            } else {
                RowMemory::Mapped
            }
        });
        let (on_device, pinned) = match memory {
            RowMemory::Device => (rows + index, 0),
            RowMemory::Pinned => (index, rows),
            RowMemory::Mapped => (0, 0),
        };
        device_left = device_left.saturating_sub(on_device);
        pinned_left = pinned_left.saturating_sub(pinned);
        found[at] = memory;
    }
    found
}

/// A copy of a column in pinned memory.
fn pinned(device: &Arc<Device>, column: &Column) -> Result<Column, EpisodeError> {
    const PIECE: usize = 1 << 24;
    let bytes = column.bytes();
    let mut memory = PinnedBuffer::new(device, bytes.len())?;
    let pieces = memory[..bytes.len()].chunks_mut(PIECE).zip(bytes.chunks(PIECE)).collect();
    parallel::for_each(
        pieces,
        parallel::cores(),
        || (),
        |(), (to, from): (&mut [u8], &[u8])| to.copy_from_slice(from),
    );
    Ok(Arc::new(Pinned(memory, bytes.len())))
}

/// The columns of a ring where the device reaches them.
fn pointers(
    name: &str,
    ring: &Ring,
    memory: RowMemory,
    device: &Arc<Device>,
    buffers: &mut Vec<Arc<DeviceBuffer>>,
) -> Result<RingPointers, EpisodeError> {
    if let Some(rows) = ring.spans.iter().find(|rows| rows.end - rows.begin > u32::MAX.into()) {
        let found = rows.end - rows.begin;
        return Err(EpisodeError::of(format!("rows of '{name}'"), "fewer than 2^32", found));
    }
    let view = ring.view()?;
    let mut put = |bytes: &[u8]| -> Result<u64, EpisodeError> {
        let buffer = DeviceBuffer::from_bytes(device, bytes)?;
        let address = buffer.address();
        buffers.push(Arc::new(buffer));
        Ok(address)
    };
    let mut some = |bytes: &[u8]| if bytes.is_empty() { Ok(0) } else { put(bytes) };
    let (rows, coordinates) = match memory {
        // Pinned memory has the same address on both sides.
        RowMemory::Pinned => (view.rows.as_ptr() as u64, view.coordinates.as_ptr() as u64),
        _ => (some(view.rows)?, some(view.coordinates)?),
    };
    let spans = view.spans.iter().map(|rows| SpanRows { begin: rows.begin, end: rows.end });
    Ok(RingPointers {
        rows,
        coordinates,
        count: some(bytes_of(view.count))?,
        stamp_ns: some(bytes_of(view.stamp_ns))?,
        received_ns: some(bytes_of(view.received_ns))?,
        left_ns: some(bytes_of(view.left_ns))?,
        received_from: some(bytes_of(view.received_from))?,
        left_until: some(bytes_of(view.left_until))?,
        until_ns: some(bytes_of(view.until_ns))?,
        replaced: some(view.replaced)?,
        until_next: some(view.until_next)?,
        spans: some(bytes_of(&spans.collect::<Vec<_>>()))?,
    })
}

/// What tells the span of an episode at an instant.
fn spans(
    episodes: &Episodes,
    device: &Arc<Device>,
    buffers: &mut Vec<Arc<DeviceBuffer>>,
) -> Result<SpanPointers, EpisodeError> {
    let spans = &episodes.spans;
    let first = |episode| spans.partition_point(|span| span.episode < episode) as u32;
    let first: Vec<u32> = (0..=episodes.episodes.len() as u32).map(first).collect();
    let epoch: Vec<i64> = spans.iter().map(|span| span.epoch).collect();
    let begin_ns: Vec<i64> = spans.iter().map(|span| span.begin_ns).collect();
    let mut put = |bytes: &[u8]| -> Result<u64, EpisodeError> {
        let buffer = DeviceBuffer::from_bytes(device, bytes)?;
        let address = buffer.address();
        buffers.push(Arc::new(buffer));
        Ok(address)
    };
    Ok(SpanPointers {
        first: put(bytes_of(&first))?,
        epoch: put(bytes_of(&epoch))?,
        begin_ns: put(bytes_of(&begin_ns))?,
        episodes: episodes.episodes.len(),
    })
}

impl From<robocache_ops::device::DeviceError> for EpisodeError {
    fn from(error: robocache_ops::device::DeviceError) -> Self {
        EpisodeError::Device(error.to_string())
    }
}

#[cfg(test)]
mod tests;
