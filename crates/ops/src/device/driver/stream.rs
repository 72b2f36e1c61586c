//! Work that a GPU is given: kernels, on streams, with events and graphs.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUresult};

use super::{Device, check, check_launch};
use crate::device::{DeviceError, Shared};

/// If a GPU seems to hang, it gets this time more: perhaps only this process was stopped.
const GRACE: Duration = Duration::from_millis(500);

/// A kernel of the loaded module.
#[derive(Debug)]
pub struct Kernel {
    handle: sys::CUfunction,
    name: String,
    device: Arc<Device>,
}

// SAFETY: a handle that any thread may launch.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// A kernel that [`Device::kernel`] found.
    pub(super) fn new(handle: sys::CUfunction, name: &str, device: Arc<Device>) -> Self {
        Kernel { handle, name: name.to_owned(), device }
    }

    /// Lets thread blocks have `bytes` of shared memory. The limit is the kernel's, for all streams
    /// of the device: a caller that allows less than another one needs takes it away there.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        let attribute =
            sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a kernel of a live device.
        let status = unsafe { sys::cuFuncSetAttribute(self.handle, attribute, bytes as i32) };
        check(status, "set a kernel's shared memory")
    }

    /// Starts a kernel with one parameter.
    ///
    /// # Safety
    /// The kernel declares one parameter of the structure `T`. Until the launch is done, what the
    /// parameter points to on the device is valid, and nothing else writes what the kernel reads.
    /// The kernel uses no more shared memory than `launch` says.
    pub unsafe fn launch_job<T: Shared>(
        &self,
        stream: &Stream,
        launch: Launch,
        job: &T,
    ) -> Result<(), DeviceError> {
        let arguments = &mut argument(job);
        // SAFETY: the caller's promise is the same.
        unsafe { self.launch(stream, launch, arguments) }
    }

    /// Launches a kernel that follows another one of the same call, which was just launched on the stream. It may start
    /// while that one ends, also where kernels of different calls do not overlap.
    ///
    /// # Safety
    /// As for [`Kernel::launch_job`].
    pub unsafe fn follow_job<T: Shared>(
        &self,
        stream: &Stream,
        launch: Launch,
        job: &T,
    ) -> Result<(), DeviceError> {
        let arguments = &mut argument(job);
        // SAFETY: the caller's promise is the same.
        unsafe { self.start(stream, launch, arguments, self.device.overlaps()) }
    }

    /// Starts a kernel.
    ///
    /// # Safety
    /// `arguments` point to values of the types that the kernel declares, in its order. For the
    /// rest see [`Kernel::launch_job`].
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        launch: Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.start(stream, launch, arguments, stream.overlaps) }
    }

    /// # Safety
    /// As for [`Kernel::launch`].
    unsafe fn start(
        &self,
        stream: &Stream,
        launch: Launch,
        arguments: &mut [*mut c_void],
        overlaps: bool,
    ) -> Result<(), DeviceError> {
        let Launch { blocks, threads, shared } = launch;
        if blocks == 0 {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // Kernels wait themselves for those before them (kernels/common.cuh), so the device may
        // start one while the last one ends.
        let mut overlap = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: stream.handle,
            attrs: &mut overlap,
            numAttrs: u32::from(overlaps),
        };
        let arguments = arguments.as_mut_ptr();
        let extra = ptr::null_mut();
        // SAFETY: handles of one live device; the caller answers for the arguments, which the
        // driver copies before it returns.
        let status = unsafe { sys::cuLaunchKernelEx(&config, self.handle, arguments, extra) };
        check_launch(status, &self.name)
    }
}

/// How a kernel is started.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Thread blocks; with 0 of them there is no launch.
    pub blocks: u32,
    /// Threads of each.
    pub threads: u32,
    /// Bytes of shared memory of each: up to 48 KiB, or what [`Kernel::allow_shared`] allowed.
    pub shared: u32,
}

/// [`Stream::wait_for`] does not sleep for this long: most rows are there by then.
const SPIN: Duration = Duration::from_micros(50);
/// Its sleeps, at least and at most.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// A queue of operations, which run in their order.
#[derive(Debug)]
pub struct Stream {
    handle: sys::CUstream,
    /// True if a kernel may be started while the one before it ends.
    overlaps: bool,
    /// True if the stream was made here, and so ends here.
    owned: bool,
    device: Arc<Device>,
}

// SAFETY: a handle that any thread may use.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver puts concurrent calls one after the other.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream that does not wait for the default stream. One that is `urgent` goes before others
    /// where both have work for the same multiprocessors.
    pub fn new(device: &Arc<Device>, urgent: bool) -> Result<Self, DeviceError> {
        let _current = device.bind()?;
        let mut least = 0;
        let mut greatest = 0;
        // SAFETY: both are places for a number.
        let status = unsafe { sys::cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
        check(status, "ask for stream priorities")?;
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let mut handle = ptr::null_mut();
        let priority = if urgent { greatest } else { least };
        // SAFETY: `handle` is a place for a stream; a context is current.
        let status = unsafe { sys::cuStreamCreateWithPriority(&mut handle, flags, priority) };
        check(status, "make a stream")?;
        let overlaps = device.overlaps();
        Ok(Stream { handle, overlaps, owned: true, device: device.clone() })
    }

    /// A stream of another library, which uses it as before. Calls do not overlap there, so each
    /// begins when everything before it is done. 0 is the default stream.
    ///
    /// # Safety
    /// `handle` is that of a stream of the device's primary context, and stays one as long as this.
    pub unsafe fn of_caller(device: &Arc<Device>, handle: u64) -> Self {
        let handle = handle as usize as sys::CUstream;
        Stream { handle, overlaps: false, owned: false, device: device.clone() }
    }

    /// Keeps calls from overlapping, so that one can be timed by itself.
    pub fn without_overlap(mut self) -> Self {
        self.overlaps = false;
        self
    }

    /// The device of this stream.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// True if a graph is captured on the stream.
    ///
    /// # Errors
    /// The driver does not say, as on the default stream while another one is captured.
    pub fn is_capturing(&self) -> Result<bool, DeviceError> {
        let _current = self.device.bind()?;
        let mut found = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: a place for a status; the stream is a live one.
        check(unsafe { sys::cuStreamIsCapturing(self.handle, &mut found) }, "ask for a capture")?;
        Ok(found != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    pub(in crate::device) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// True if `handle` is the handle of this stream.
    pub(in crate::device) fn is(&self, handle: u64) -> bool {
        self.handle as usize as u64 == handle
    }

    /// Waits until all operations are done.
    pub fn synchronize(&self, operation: &'static str) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamSynchronize(self.handle) }, operation)
    }

    /// Waits until all operations are done, and takes little of a core: it asks again and again, and
    /// sleeps in between. So it ends after `limit` though the GPU does not. If the process itself was
    /// stopped meanwhile, the GPU gets [`GRACE`] more.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the limit passes, or if an operation failed.
    pub fn wait_for(&self, limit: Duration, operation: &'static str) -> Result<(), DeviceError> {
        let start = Instant::now();
        let mut grace = Some(GRACE);
        loop {
            let _current = self.device.bind()?;
            // SAFETY: a live stream.
            match unsafe { sys::cuStreamQuery(self.handle) } {
                CUresult::CUDA_ERROR_NOT_READY => {}
                status => return check(status, operation),
            }
            let waited = start.elapsed();
            if waited >= limit {
                if let Some(grace) = grace.take() {
                    std::thread::sleep(grace);
                    continue;
                }
                let detail = format!("not done after {:.1} s", waited.as_secs_f64());
                return Err(DeviceError::Failed { operation, detail });
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                // An eighth of the time so far: it adds no more than that to the wait.
                std::thread::sleep((waited / 8).clamp(SHORTEST_SLEEP, LONGEST_SLEEP));
            }
        }
    }

    /// Zeros `count` words of 32 bits at `address`, after all earlier operations.
    ///
    /// # Safety
    /// They are memory of the device, and nothing else uses them until it is done.
    pub unsafe fn clear_words(&self, address: u64, count: usize) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        // SAFETY: the caller's promise is the same; the stream is a live one.
        let status = unsafe { sys::cuMemsetD32Async(address, 0, count, self.handle) };
        check(status, "clear device memory")
    }

    /// Lets later operations wait for `event`.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        // SAFETY: a live stream and a live event of one device; 0 is the default.
        let status = unsafe { sys::cuStreamWaitEvent(self.handle, event.handle, 0) };
        check(status, "wait for an event")
    }

    /// Records what `launches` puts on this stream as a graph, instead of running it.
    pub fn capture(
        &self,
        launches: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<Graph, DeviceError> {
        let _current = self.device.bind()?;
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a live stream on which nothing is being captured.
        let status = unsafe { sys::cuStreamBeginCapture_v2(self.handle, mode) };
        check(status, "begin a graph")?;
        let launched = launches();
        let mut graph = ptr::null_mut();
        // SAFETY: ends the capture begun above; `graph` is a place for a graph.
        let status = unsafe { sys::cuStreamEndCapture(self.handle, &mut graph) };
        launched?;
        check(status, "end a graph")?;
        let mut handle = ptr::null_mut();
        // SAFETY: `graph` is a complete graph; instantiated, it is no longer needed.
        let status = unsafe {
            let status = sys::cuGraphInstantiateWithFlags(&mut handle, graph, 0);
            let _ = sys::cuGraphDestroy(graph);
            status
        };
        check(status, "instantiate a graph")?;
        Ok(Graph { handle, device: self.device.clone() })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        if let Ok(_current) = self.device.bind() {
            // SAFETY: made in `new` and not used after; the driver finishes its work first.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.handle) };
        }
    }
}

/// A point in a stream that can be waited for.
#[derive(Debug)]
pub struct Event {
    handle: sys::CUevent,
    device: Arc<Device>,
}

// SAFETY: a handle that any thread may use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event; one that is `timed` can be used with [`Event::microseconds_since`].
    pub fn new(device: &Arc<Device>, timed: bool) -> Result<Self, DeviceError> {
        let _current = device.bind()?;
        let flags = match timed {
            true => sys::CUevent_flags_enum::CU_EVENT_DEFAULT,
            false => sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a place for an event; a context is current.
        check(unsafe { sys::cuEventCreate(&mut handle, flags as u32) }, "make an event")?;
        Ok(Event { handle, device: device.clone() })
    }

    /// Marks everything that is on `stream` so far.
    pub fn record(&self, stream: &Stream) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        // SAFETY: a live event and a live stream of one device.
        check(unsafe { sys::cuEventRecord(self.handle, stream.handle) }, "record an event")
    }

    /// Waits until the event has happened; one that was never recorded has.
    pub fn synchronize(&self, operation: &'static str) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        // SAFETY: a live event.
        check(unsafe { sys::cuEventSynchronize(self.handle) }, operation)
    }

    /// True if the event has happened. While a graph is recorded in this process, asking is allowed.
    pub(in crate::device) fn has_happened(&self) -> bool {
        let Ok(_current) = self.device.bind() else { return false };
        let mut mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: a live event. The mode of this thread is exchanged, and then again.
        let status = unsafe {
            let _ = sys::cuThreadExchangeStreamCaptureMode(&mut mode);
            let status = sys::cuEventQuery(self.handle);
            let _ = sys::cuThreadExchangeStreamCaptureMode(&mut mode);
            status
        };
        status == CUresult::CUDA_SUCCESS
    }

    /// Time between two timed events that have happened \[us\].
    pub fn microseconds_since(&self, earlier: &Event) -> Result<f64, DeviceError> {
        let mut milliseconds = MaybeUninit::<f32>::zeroed();
        // SAFETY: a place for a number, and two live events of one device.
        let status = unsafe {
            sys::cuEventElapsedTime(milliseconds.as_mut_ptr(), earlier.handle, self.handle)
        };
        check(status, "take the time between events")?;
        // SAFETY: zero at first, and set on success.
        Ok(f64::from(unsafe { milliseconds.assume_init() }) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.bind() {
            // SAFETY: made in `new` and not used after.
            let _ = unsafe { sys::cuEventDestroy_v2(self.handle) };
        }
    }
}

/// Recorded launches that are started together.
#[derive(Debug)]
pub struct Graph {
    handle: sys::CUgraphExec,
    device: Arc<Device>,
}

impl Graph {
    /// Starts all of it on a stream.
    ///
    /// # Safety
    /// What the recorded launches work on is still valid, as for [`Kernel::launch`].
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        // SAFETY: a live graph and a live stream of one device; the caller answers for the rest.
        check(unsafe { sys::cuGraphLaunch(self.handle, stream.handle) }, "launch a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.bind() {
            // SAFETY: made in `capture` and not used after.
            let _ = unsafe { sys::cuGraphExecDestroy(self.handle) };
        }
    }
}

/// A kernel's one argument. The driver only reads it, though its interface does not say so.
fn argument<T>(job: &T) -> [*mut c_void; 1] {
    [ptr::from_ref(job).cast_mut().cast()]
}
