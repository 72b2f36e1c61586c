//! The memory while ticks go on.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::timeline::{Span, Timeline, What};
use crate::error::BenchError;
use crate::options::Options;
use crate::pair::Hardware;
use robocache_core::backend::BackendError;

/// Between two looks at the free memory, which cost a call of the driver each.
const LOOK: Duration = Duration::from_secs(10);

/// Memory at the start, in between and at the end \[bytes\].
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryUse {
    /// Free on the whole GPU; the least is that of any look.
    pub device: Option<[usize; 3]>,
    /// Resident in this process; the middle one is the most of any look.
    pub resident: Option<[usize; 3]>,
}

/// Looks at the memory now and then until the soak is over. `failed` says why it ends before its
/// time.
pub(super) fn watch(
    soak: &Timeline,
    gpu: &Gpu,
    mut failed: impl FnMut() -> Option<BenchError>,
) -> Result<(MemoryUse, Vec<Span>), BenchError> {
    // The threads have reserved what they need by then.
    soak.sleep_until(0);
    let device = gpu.free_bytes()?;
    let host = resident_bytes();
    let mut memory =
        MemoryUse { device: device.map(|free| [free; 3]), resident: host.map(|bytes| [bytes; 3]) };
    let mut spans = Vec::new();
    let mut last = Instant::now();
    let mut over = false;
    while !over {
        thread::sleep(Duration::from_millis(20));
        if let Some(error) = failed() {
            return Err(error);
        }
        over = soak.stopping() || soak.now() >= soak.end_ns();
        if last.elapsed() < LOOK && !over {
            continue;
        }
        last = Instant::now();
        let from = soak.now();
        memory.look(gpu)?;
        spans.push(Span { what: What::Look, from, to: soak.now() });
    }
    Ok((memory, spans))
}

impl MemoryUse {
    fn look(&mut self, gpu: &Gpu) -> Result<(), BackendError> {
        if let (Some([_, least, end]), Some(free)) = (&mut self.device, gpu.free_bytes()?) {
            (*least, *end) = (free.min(*least), free);
        }
        if let (Some([_, most, end]), Some(bytes)) = (&mut self.resident, resident_bytes()) {
            (*most, *end) = (bytes.max(*most), bytes);
        }
        Ok(())
    }
}

/// Resident memory of this process (proc(5)) \[bytes\]; `None` where the system does not tell.
fn resident_bytes() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The GPU of the subject, if it is on one.
pub(super) struct Gpu {
    #[cfg(feature = "cuda")]
    device: Option<std::sync::Arc<robocache_ops::device::Device>>,
}

#[cfg_attr(
    not(feature = "cuda"),
    expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "one signature for both builds"
    )
)]
impl Gpu {
    /// Opens it; notes its name in `hardware`.
    #[cfg(feature = "cuda")]
    pub(super) fn open(options: &Options, hardware: &mut Hardware) -> Result<Self, BackendError> {
        if !hardware.backend.contains("cuda") {
            return Ok(Gpu { device: None });
        }
        let device = robocache_ops::device::Device::open(options.device)?;
        device.name().clone_into(&mut hardware.device);
        Ok(Gpu { device: Some(device) })
    }

    /// A build without CUDA uses no memory of a GPU.
    #[cfg(not(feature = "cuda"))]
    pub(super) fn open(_: &Options, _: &mut Hardware) -> Result<Self, BackendError> {
        Ok(Gpu {})
    }

    fn free_bytes(&self) -> Result<Option<usize>, BackendError> {
        #[cfg(feature = "cuda")]
        let free = self.device.as_ref().map(|device| device.free_bytes()).transpose()?;
        #[cfg(not(feature = "cuda"))]
        let free = None;
        Ok(free)
    }
}
