//! The items of batches in the order of a sampler, on the GPU: `kernels/windows/sample.cu`.

use std::sync::Arc;

use crate::device::shared::windows::{SAMPLE_THREADS, Sample as Job};
use crate::device::{Device, DeviceError, Kernel, Launch, Stream};

/// The order of a sampler. Python's side checks its numbers, and has its arrays on the device.
#[derive(Clone, Copy, Debug)]
pub struct SampleOrder {
    /// Address of a table of `i64` in device memory. For each range: the items of it and of all before it. Then its first
    /// instant \[ns\], its episode, and its epoch of the clock. If it is `weighted`, then for each episode: the items of it
    /// and of all before it. Then its chance with that of all before it, an `f64`.
    pub table: u64,
    /// Ranges of instants.
    pub ranges: u32,
    /// Episodes that ranges are of.
    pub episodes: u32,
    /// True if episodes are drawn by their chances.
    pub weighted: bool,
    /// True if the items of an epoch are permuted. Items that are drawn have no order.
    pub shuffle: bool,
    /// Of the order.
    pub seed: u64,
    /// From one instant to the next \[ns\].
    pub period_ns: u64,
    /// Items in all, at least one.
    pub items: u64,
    /// Batches of this rank in an epoch of the training, at least one.
    pub batches: u64,
    /// Items of a batch.
    pub batch_size: u64,
    /// This process among all.
    pub rank: u64,
    /// How many processes there are.
    pub world: u64,
}

/// Takes one batch of an order after the other.
pub struct Sample {
    kernel: Kernel,
    job: Job,
}

impl Sample {
    /// Prepares an order.
    ///
    /// # Errors
    /// The kernel is missing, or the device fails.
    pub fn new(device: &Arc<Device>, order: &SampleOrder) -> Result<Self, DeviceError> {
        let bytes = |numbers: u32| u64::from(numbers) * size_of::<i64>() as u64;
        let column = |at: u64| order.table + at * bytes(order.ranges);
        let by_episode = |at: u64| match order.weighted {
            true => column(4) + at * bytes(order.episodes),
            false => 0,
        };
        let job = Job {
            taken: 0,
            items: 0,
            ends: column(0),
            first_ns: column(1),
            episodes: column(2),
            epochs: column(3),
            episode_ends: by_episode(0),
            chances: by_episode(1),
            seed: order.seed,
            period_ns: order.period_ns,
            count: order.items,
            batches: order.batches,
            batch_size: order.batch_size,
            rank: order.rank,
            world: order.world,
            range_count: order.ranges,
            episode_count: order.episodes,
            shuffle: u32::from(order.shuffle),
            reserved: 0,
        };
        Ok(Sample { kernel: device.kernel("sample_windows")?, job })
    }

    /// Puts one launch on a stream. It writes the items of batch `*taken` to `items`, `[3, batch_size]`: episodes, instants
    /// and epochs of the clock. Then it raises `*taken` by one. Batches are counted over all epochs of the training. Places
    /// without an item, in a last batch, get the episode -1.
    ///
    /// # Errors
    /// The device fails.
    ///
    /// # Safety
    /// Until the launch is done, the table of the order stays. `taken` is a `u64`, and `items` has room for its `i64`. Both
    /// are in device memory, and nothing else uses them.
    pub unsafe fn launch(
        &self,
        taken: u64,
        items: u64,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let launch = Launch { blocks: 1, threads: SAMPLE_THREADS, shared: 0 };
        let job = Job { taken, items, ..self.job };
        // SAFETY: the parameter is that of the kernel, and names what the caller answers for.
        unsafe { self.kernel.launch_job(stream, launch, &job) }
    }
}
