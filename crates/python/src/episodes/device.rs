//! Episodes whose windows a GPU makes. `robocache.EpisodeCache` uses this.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use robocache_data::episodes::device::{DeviceRequest, EpisodesOnDevice, Room, RowMemory};
use robocache_data::episodes::{Choice, EpisodeError, Episodes as HostEpisodes};
use robocache_ops::device::{Device, DeviceError};
use robocache_ops::windows::WindowPlan;
use robocache_ops::windows::cuda::{self, DeviceWindowPlan, SampleOrder};

use crate::episodes::{Episodes, raised, threads};
use crate::errors::failed;
use crate::freeing::Unlocked;
use crate::operations::{Place, device, stream_of};

/// Rows of many episodes, for a GPU.
#[pyclass(frozen, module = "robocache._native")]
pub struct DeviceEpisodes(Unlocked<Arc<EpisodesOnDevice>>);

/// A plan on a GPU, and the rows there.
pub(crate) struct PlanOnGpu(Unlocked<(Arc<EpisodesOnDevice>, Arc<DeviceWindowPlan>)>);

/// Takes the rows of episodes to where a GPU reaches them.
pub(crate) fn on_device(
    py: Python<'_>,
    episodes: &HostEpisodes,
    number: i32,
    memory: &[String],
    device_bytes: Option<usize>,
    pinned_bytes: Option<usize>,
) -> PyResult<DeviceEpisodes> {
    let of_streams = memory.iter().map(|name| RowMemory::of_name(name));
    let of_streams = of_streams.collect::<Result<Vec<_>, _>>().map_err(raised)?;
    let room = Room { of_streams, device_bytes, pinned_bytes };
    let made = py.detach(|| EpisodesOnDevice::new(episodes, &device(number)?, &room));
    Ok(DeviceEpisodes(Unlocked::new(Arc::new(made.map_err(raised)?))))
}

#[pymethods]
impl DeviceEpisodes {
    /// The episodes, with the rows where they are now.
    fn episodes(&self) -> Episodes {
        Episodes(Unlocked::new(Arc::clone(self.0.episodes())))
    }

    /// Per stream where its rows are: `device`, `pinned` or `mapped`.
    fn memory(&self) -> Vec<&'static str> {
        self.0.memory().map(RowMemory::name).collect()
    }
}

impl DeviceEpisodes {
    /// Prepares windows: the episodes, the plan, and the same on the GPU.
    pub(super) fn plan(
        &self,
        py: Python<'_>,
        choices: Option<&[Choice]>,
    ) -> PyResult<(Arc<HostEpisodes>, WindowPlan, PlanOnGpu)> {
        let made = || -> Result<_, EpisodeError> {
            let plan = self.0.episodes().plan(choices)?;
            let on_gpu = Arc::new(self.0.plan(&plan)?);
            Ok((plan, Unlocked::new((Arc::clone(&self.0), on_gpu))))
        };
        let (plan, on_gpu) = py.detach(made).map_err(raised)?;
        Ok((Arc::clone(self.0.episodes()), plan, PlanOnGpu(on_gpu)))
    }
}

impl PlanOnGpu {
    /// Puts a batch on a stream of the GPU. `out` is the address of memory there and its length in bytes.
    pub(super) fn put(
        &self,
        py: Python<'_>,
        place: Place,
        out: (u64, usize),
        request: DeviceRequest<'_>,
        count: Option<usize>,
    ) -> PyResult<()> {
        let threads = threads(count);
        let (episodes, plan) = &*self.0;
        let put = || {
            let stream = stream_of(plan.device(), place);
            // SAFETY: Python's side has made the output, of the size of the layout, and has checked the shapes of
            // arrays on the device. The caller's stream orders this with the use and the release of the arrays,
            // as for any kernel of the array library. No launch there overlaps with the one before it.
            unsafe { episodes.launch(plan, request, out.0, out.1, &stream, threads) }
        };
        py.detach(put).map_err(raised)
    }
}

/// The order of a sampler on a GPU. `robocache.training.device_sampler` uses this.
#[pyclass(frozen, module = "robocache._native")]
pub struct DeviceOrder {
    device: Arc<Device>,
    sample: cuda::Sample,
}

#[pymethods]
impl DeviceOrder {
    /// `table` is the address of a table, of `counts`: ranges, and episodes; see [`SampleOrder`].
    #[new]
    #[pyo3(signature = (device, table, counts, order, batches, ranks, *, weighted, shuffle))]
    #[allow(clippy::too_many_arguments)] // as many as an order has
    fn new(
        py: Python<'_>,
        device: i32,
        table: u64,
        counts: (u32, u32),
        order: (u64, u64, u64),
        batches: (u64, u64),
        ranks: (u64, u64),
        weighted: bool,
        shuffle: bool,
    ) -> PyResult<Self> {
        let ((ranges, episodes), (seed, period_ns, items)) = (counts, order);
        let ((batches, batch_size), (rank, world)) = (batches, ranks);
        if [items, batches, batch_size, world].contains(&0) {
            return Err(PyValueError::new_err("order: expected an item or more, found none"));
        }
        let order = SampleOrder {
            table,
            ranges,
            episodes,
            weighted,
            shuffle,
            seed,
            period_ns,
            items,
            batches,
            batch_size,
            rank,
            world,
        };
        let made = || -> Result<_, DeviceError> {
            let device = self::device(device)?;
            let sample = cuda::Sample::new(&device, &order)?;
            Ok(DeviceOrder { device, sample })
        };
        py.detach(made).map_err(failed)
    }

    /// Puts the items of the next batch on a stream of the GPU. `taken` and `items` are addresses of the counter and of room
    /// for `[3, batch_size]` int64.
    fn launch(&self, py: Python<'_>, place: Place, taken: u64, items: u64) -> PyResult<()> {
        let put = || {
            let stream = stream_of(&self.device, place);
            // SAFETY: Python's side has made all three arrays and keeps them. The caller's stream orders this with their
            // use, as for any kernel of the array library.
            unsafe { self.sample.launch(taken, items, &stream) }
        };
        py.detach(put).map_err(failed)
    }
}
