//! Episodes for windows on a GPU: where the rows of each stream are, and batches from there.

use std::sync::{Arc, Mutex};

use super::memory::{Bytes, Column};
use super::{EpisodeError, Episodes, Ring, WindowBatch, available};
use robocache_ops::device::shared::windows::SpanRows;
use robocache_ops::device::{Device, DeviceBuffer, PinnedBuffer, Stream, bytes_of};
use robocache_ops::parallel;
use robocache_ops::sync::lock;
use robocache_ops::windows::cuda::{DeviceItems, DeviceWindowPlan, RingPointers, SpanPointers};
use robocache_ops::windows::{Items, WindowPlan, WindowStream};

/// Memory that has the rows of a stream.
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
    /// The name is unknown.
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

/// Memory for rows, and how much room there is \[bytes\].
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
    /// Owners of the memory that the pointers point to.
    _buffers: Vec<DeviceBuffer>,
}

struct Kept {
    memory: RowMemory,
    /// Empty if the rows are mapped.
    rings: Vec<RingPointers>,
}

/// A request for a batch on a GPU.
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

    /// True if a graph that repeats the request reads what is there then: all of its numbers are on the device.
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
static IN_GRAPHS: Mutex<Vec<Arc<DeviceWindowPlan>>> = Mutex::new(Vec::new());

/// Rows in pinned memory, and how many bytes they are: no memory has less than one.
struct Pinned(PinnedBuffer, usize);

impl Bytes for Pinned {
    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl EpisodesOnDevice {
    /// Copies rows to their memory. Columns in pinned memory replace the old columns. If rows go to the GPU, the host
    /// keeps its copy.
    ///
    /// # Errors
    /// The memory does not suffice, or the device fails.
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
                        if let Some(rows) = ring.rows.plain() {
                            ring.rows = pinned(device, rows)?.into();
                        }
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
        Ok(EpisodesOnDevice { episodes, device: device.clone(), kept, spans, _buffers: buffers })
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

    /// Prepares windows of a plan of these episodes on the device.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn plan(self: &Arc<Self>, plan: &WindowPlan) -> Result<DeviceWindowPlan, EpisodeError> {
        let rings = plan.streams().iter().map(|stream| {
            let Kept { memory, rings } = &self.kept[stream.number];
            (*memory != RowMemory::Mapped).then_some(rings.as_slice())
        });
        let rings: Vec<_> = rings.collect();
        let rows = Arc::<Self>::clone(self);
        Ok(DeviceWindowPlan::new(&self.device, plan, &rings, self.spans, rows)?)
    }

    /// Puts a batch on a stream, which writes it to `out`, an address and how many bytes there are. Nothing of the
    /// request is used after the call. If the host makes some of the streams, the call lasts as long, on `threads`
    /// threads. If the stream records a graph, the plan is kept for good: the graph may be replayed at any time.
    ///
    /// # Errors
    /// As for [`Episodes::windows`]; the output is too short; a request of the device asks for a stream that the
    /// host makes or that is required; a graph is recorded of numbers of the host; the device fails.
    ///
    /// # Safety
    /// As for [`DeviceWindowPlan::launch`], and the plan is one of these episodes.
    pub unsafe fn launch(
        &self,
        plan: &Arc<DeviceWindowPlan>,
        request: DeviceRequest<'_>,
        out: u64,
        bytes: usize,
        stream: &Stream,
        threads: usize,
    ) -> Result<(), EpisodeError> {
        let windows = request.windows();
        let of = plan.plan();
        let len = of.layout(windows)?.byte_len;
        if bytes < len {
            return Err(EpisodeError::of(
                "out",
                format!("{len} bytes for {windows} windows"),
                bytes,
            ));
        }
        if stream.is_capturing()? {
            keep_for_graph(plan, request)?;
        }
        let spans;
        let (items, latency_ns) = match request {
            DeviceRequest::Host(request) => {
                spans = self.episodes.spans_of(of, request)?;
                let instants = request.instants_ns;
                let latency_ns = request.latency_ns;
                if plan.of_host().next().is_some() && !instants.is_empty() {
                    let rows = |stream: &WindowStream| self.episodes.rows_of(stream);
                    let bounds = &self.episodes.bounds_of(&spans);
                    let items = Items { spans: &spans, bounds, instants, latency_ns };
                    // SAFETY: the caller's promise is the same.
                    unsafe { plan.write_of_host(rows, items, out, stream, threads)? };
                }
                (DeviceItems::Host { spans: &spans, instants }, latency_ns)
            }
            DeviceRequest::Device { items, latency_ns } => {
                check_device_items(plan)?;
                (items, latency_ns)
            }
        };
        // SAFETY: the caller's promise is the same.
        unsafe { plan.launch(items, latency_ns, out, stream)? };
        Ok(())
    }
}

/// Keeps the plan for a graph that is recorded, if that may have the request.
fn keep_for_graph(
    plan: &Arc<DeviceWindowPlan>,
    request: DeviceRequest<'_>,
) -> Result<(), EpisodeError> {
    if !request.is_replayable() {
        // The graph would have these very numbers, or read memory that later calls write.
        let found = "arrays of the host, or latency_ns, while a CUDA graph is recorded";
        return Err(EpisodeError::of("windows", "episodes and instants on the GPU", found));
    }
    let mut kept = lock(&IN_GRAPHS);
    if !kept.iter().any(|other| Arc::ptr_eq(other, plan)) {
        kept.push(Arc::clone(plan));
    }
    Ok(())
}

/// Refuses items on the device for windows that episodes do not allow there.
fn check_device_items(plan: &DeviceWindowPlan) -> Result<(), EpisodeError> {
    let mapped = plan.of_host().map(|stream| (stream, "its rows are mapped"));
    let required = plan.plan().streams().iter().filter(|stream| stream.required);
    let required = required.map(|stream| (stream, "it is required"));
    match mapped.chain(required).next() {
        None => Ok(()),
        Some((WindowStream { name, .. }, why)) => Err(EpisodeError::of(
            format!("windows of '{name}'"),
            "episodes and instants as arrays of the host",
            format!("arrays of a GPU, and {why}"),
        )),
    }
}

/// Chooses the memory for each stream's rows: the smallest streams first to the GPU, then to pinned memory.
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
    // The table of spans, of an epoch and two instants each, is always there.
    let table = size_of::<u32>() * (episodes.episodes.len() + 1) + 3 * size_of::<i64>() * spans;
    let left = [device_bytes.saturating_sub(table), pinned_bytes];
    let mut of_streams = room.of_streams.clone();
    of_streams.resize(streams.len(), None);
    for (stream, memory) in streams.iter().zip(&mut of_streams) {
        if stream.rings.iter().all(|ring| ring.rows.plain().is_some()) {
            continue;
        }
        if memory.is_some_and(|memory| memory != RowMemory::Mapped) {
            let what = format!("memory of '{}'", stream.means.name);
            let expected = "mapped, as its rows are compressed";
            return Err(EpisodeError::of(what, expected, "device or pinned"));
        }
        *memory = Some(RowMemory::Mapped);
    }
    Ok(place(&sizes, &of_streams, left))
}

/// Bytes of a stream.
#[derive(Clone, Copy)]
struct Size {
    /// Rows and coordinates.
    rows: usize,
    /// Tables that find the rows. They are always on the GPU if it reads the rows.
    index: usize,
}

impl Size {
    fn of(rings: &[Ring], spans: usize) -> Self {
        let len = |column: &Column| column.bytes().len();
        let of_ring = |ring: &Ring| ring.rows.byte_len() + ring.coordinates.as_ref().map_or(0, len);
        let rows = rings.iter().map(of_ring).sum();
        // Each row has two bounds beside its columns.
        let bounds = |ring: &Ring| 2 * size_of::<i64>() * ring.len();
        let all =
            rings.iter().map(|ring| ring.byte_len() + bounds(ring) + size_of::<SpanRows>() * spans);
        Size { rows, index: all.sum::<usize>() - rows }
    }
}

/// Places streams, given what is left on the device and of pinned memory: first those that were placed.
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
    buffers: &mut Vec<DeviceBuffer>,
) -> Result<RingPointers, EpisodeError> {
    if let Some(rows) = ring.spans.iter().find(|rows| rows.end - rows.begin > u32::MAX.into()) {
        let found = rows.end - rows.begin;
        return Err(EpisodeError::of(format!("rows of '{name}'"), "fewer than 2^32", found));
    }
    let view = ring.view()?;
    let mut put = |bytes: &[u8]| -> Result<u64, EpisodeError> {
        let buffer = DeviceBuffer::from_bytes(device, bytes)?;
        let address = buffer.address();
        buffers.push(buffer);
        Ok(address)
    };
    let mut some = |bytes: &[u8]| if bytes.is_empty() { Ok(0) } else { put(bytes) };
    // Compressed rows are not here: windows of them are made on the host.
    let rows = ring.rows.plain().map_or(&[][..], |column| column.bytes());
    let (rows, coordinates) = match memory {
        // Pinned memory has the same address on both sides.
        RowMemory::Pinned => (rows.as_ptr() as u64, view.coordinates.as_ptr() as u64),
        _ => (some(rows)?, some(view.coordinates)?),
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

/// Uploads the tables that tell the span of an episode at an instant.
fn spans(
    episodes: &Episodes,
    device: &Arc<Device>,
    buffers: &mut Vec<DeviceBuffer>,
) -> Result<SpanPointers, EpisodeError> {
    let spans = &episodes.spans;
    let first = |episode| spans.partition_point(|span| span.episode < episode) as u32;
    let first: Vec<u32> = (0..=episodes.episodes.len() as u32).map(first).collect();
    let epoch: Vec<i64> = spans.iter().map(|span| span.epoch).collect();
    let begin_ns: Vec<i64> = spans.iter().map(|span| span.begin_ns).collect();
    let end_ns: Vec<i64> = spans.iter().map(|span| span.end_ns).collect();
    let mut put = |bytes: &[u8]| -> Result<u64, EpisodeError> {
        let buffer = DeviceBuffer::from_bytes(device, bytes)?;
        let address = buffer.address();
        buffers.push(buffer);
        Ok(address)
    };
    Ok(SpanPointers {
        first: put(bytes_of(&first))?,
        epoch: put(bytes_of(&epoch))?,
        begin_ns: put(bytes_of(&begin_ns))?,
        end_ns: put(bytes_of(&end_ns))?,
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
