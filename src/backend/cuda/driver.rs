//! The CUDA driver in safe types: a device, streams, events, graphs and the kernels.
//!
//! The driver is loaded at run time. [`Device::open`] asks for it first, and says why there is
//! none to be had; everything else here starts from an open device, so that the driver is there.
//! Every object keeps its device alive, and no call uses the default stream.

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use crate::backend::BackendError;

/// The kernels, for every chip that `build.rs` names, and as PTX for later ones.
static KERNELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// Version of the toolkit that compiled them, and so the least one that the driver must know:
/// 1000 * major + 10 * minor.
const TOOLKIT: &str = env!("ROBOCACHE_CUDA_VERSION");

/// Turns the status of a driver call into a result that names the operation.
pub fn check(status: CUresult, operation: &'static str) -> Result<(), BackendError> {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => {
            Err(BackendError::Failed { backend: super::NAME, operation, detail: describe(status) })
        }
    }
}

/// The name and the meaning of a status, such as
/// `CUDA_ERROR_OUT_OF_MEMORY (out of memory)`.
fn describe(status: CUresult) -> String {
    let mut text = ptr::null();
    // SAFETY: the driver is loaded, since a call returned `status`; it sets `text` to a static
    // string, or leaves it null for a status that it does not know.
    let text = unsafe {
        let _ = sys::cuGetErrorString(status, &mut text);
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy())
    };
    format!("{status:?} ({})", text.unwrap_or("unknown".into()))
}

fn unavailable(detail: String) -> BackendError {
    BackendError::Unavailable { backend: super::NAME, detail }
}

/// An opened GPU with the kernels loaded.
#[derive(Debug)]
pub struct Device {
    handle: sys::CUdevice,
    context: sys::CUcontext,
    module: sys::CUmodule,
    /// For copies and clears that are waited for: the default stream would wait for all others.
    setup: sys::CUstream,
    name: String,
    multiprocessors: u32,
}

// SAFETY: the handles are names that the driver accepts from any thread, and `Device` hands out
// no reference to what they name.
unsafe impl Send for Device {}
// SAFETY: as above; the driver synchronises its own calls.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the GPU with this ordinal and loads the kernels.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`], with the reason: no driver, a driver that is too old, no
    /// GPU, no such ordinal, a GPU older than Turing, not enough memory.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, BackendError> {
        // SAFETY: looks for the library and runs nothing of ours; loading the driver's library
        // runs the driver's own initialisers.
        if !unsafe { sys::is_culib_present() } {
            return Err(unavailable("no NVIDIA driver on this machine (libcuda.so.1)".into()));
        }
        init()?;
        let handle = device_handle(ordinal)?;
        let name = device_name(handle)?;
        let mut context = ptr::null_mut();
        // SAFETY: `handle` is a device of this driver; the context is released in `drop`.
        let status = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, handle) };
        opening(status, "open the device")?;
        let (module, setup) = (ptr::null_mut(), ptr::null_mut());
        let mut device = Device { handle, context, module, setup, name, multiprocessors: 0 };
        device.bind()?;
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a place for a stream; a context is current.
        opening(unsafe { sys::cuStreamCreate(&mut device.setup, flags) }, "make a stream")?;
        let count = device
            .attribute(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        device.multiprocessors = count.max(1) as u32;
        device.load()?;
        Ok(Arc::new(device))
    }

    fn load(&mut self) -> Result<(), BackendError> {
        // SAFETY: `KERNELS` is a complete fat binary, and the context is current.
        let status = unsafe { sys::cuModuleLoadData(&mut self.module, KERNELS.as_ptr().cast()) };
        match status {
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => Err(unavailable(format!(
                "{}: expected compute capability 7.5 or later, for which the kernels are built",
                self.name
            ))),
            status => opening(status, "load the kernels"),
        }
    }

    /// Name of the GPU.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of its multiprocessors, at least 1.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Bytes of its second-level cache.
    pub fn cache_bytes(&self) -> Result<usize, BackendError> {
        let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        Ok(self.attribute(attribute)?.max(0) as usize)
    }

    /// Bytes of device memory that are free, on the whole GPU.
    pub fn free_bytes(&self) -> Result<usize, BackendError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are places for a number; a context is current.
        let status = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
        check(status, "ask for free memory")?;
        Ok(free)
    }

    fn attribute(&self, attribute: sys::CUdevice_attribute_enum) -> Result<i32, BackendError> {
        let mut value = 0;
        // SAFETY: `value` is a place for a number and `handle` a device.
        let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.handle) };
        check(status, "ask for a device attribute")?;
        Ok(value)
    }

    /// Makes the device current on the calling thread: every call below needs it, and any thread
    /// may be the one that encodes.
    pub fn bind(&self) -> Result<(), BackendError> {
        // SAFETY: the context is retained until `drop`.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "make the device current")
    }

    /// Puts an operation on the set-up stream, and waits for it.
    pub(super) fn at_once(
        &self,
        operation: &'static str,
        start: impl FnOnce(sys::CUstream) -> CUresult,
    ) -> Result<(), BackendError> {
        self.bind()?;
        check(start(self.setup), operation)?;
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamSynchronize(self.setup) }, operation)
    }

    /// Waits until everything that was started on the device is done.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: a context is current.
        check(unsafe { sys::cuCtxSynchronize() }, "wait for the device")
    }

    /// Finds a kernel by its name.
    pub fn kernel(self: &Arc<Self>, name: &'static str) -> Result<Kernel, BackendError> {
        self.bind()?;
        let mut handle = ptr::null_mut();
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: the module is loaded and `c_name` ends in a zero.
        let status = unsafe { sys::cuModuleGetFunction(&mut handle, self.module, c_name.as_ptr()) };
        check(status, "find a kernel")?;
        Ok(Kernel { handle, name, device: self.clone() })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: all were acquired in `open`; objects that use them hold the device alive. A
        // failure here leaves nothing to be done.
        unsafe {
            if self.bind().is_ok() {
                if !self.setup.is_null() {
                    let _ = sys::cuStreamDestroy_v2(self.setup);
                }
                if !self.module.is_null() {
                    let _ = sys::cuModuleUnload(self.module);
                }
            }
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.handle);
        }
    }
}

/// Like [`check`], for the calls that open a device.
fn opening(status: CUresult, operation: &str) -> Result<(), BackendError> {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(unavailable(format!("cannot {operation}: {}", describe(status)))),
    }
}

/// Starts the driver and checks its version.
fn init() -> Result<(), BackendError> {
    // SAFETY: the library is present; 0 is the only flag that is defined.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_ERROR_NO_DEVICE => return Err(unavailable("no GPU on this machine".into())),
        status => opening(status, "start the driver")?,
    }
    let mut version = 0;
    // SAFETY: `version` is a place for a number.
    opening(unsafe { sys::cuDriverGetVersion(&mut version) }, "ask for the driver's version")?;
    let needed: i32 = TOOLKIT.parse().unwrap_or(i32::MAX);
    // Machine code of a toolkit runs on every driver of the same major version.
    if version / 1000 < needed / 1000 {
        return Err(unavailable(format!(
            "the driver is too old: expected one for CUDA {}.x or later, found CUDA {}.{}",
            needed / 1000,
            version / 1000,
            version % 1000 / 10
        )));
    }
    Ok(())
}

fn device_handle(ordinal: usize) -> Result<sys::CUdevice, BackendError> {
    let mut count = 0;
    // SAFETY: `count` is a place for a number; the driver has been started.
    opening(unsafe { sys::cuDeviceGetCount(&mut count) }, "count the devices")?;
    let index = i32::try_from(ordinal).ok().filter(|index| *index < count).ok_or_else(|| {
        unavailable(match count {
            0 => "no GPU on this machine".into(),
            _ => format!("device: expected 0 to {}, found {ordinal}", count - 1),
        })
    })?;
    let mut handle = 0;
    // SAFETY: `handle` is a place for a device and `index` is below their number.
    opening(unsafe { sys::cuDeviceGet(&mut handle, index) }, "find the device")?;
    Ok(handle)
}

fn device_name(handle: sys::CUdevice) -> Result<String, BackendError> {
    let mut name = [0u8; 256];
    // SAFETY: `name` has the length that is passed, and the driver ends it with a zero.
    let status =
        unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, handle) };
    opening(status, "ask for the device's name")?;
    let text = CStr::from_bytes_until_nul(&name).map(|text| text.to_string_lossy().into_owned());
    Ok(text.unwrap_or_default())
}

/// A kernel of the loaded module.
#[derive(Debug)]
pub struct Kernel {
    handle: sys::CUfunction,
    name: &'static str,
    device: Arc<Device>,
}

// SAFETY: a handle that any thread may launch.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Starts `blocks` blocks of `threads` threads on a stream; 0 blocks are no launch.
    ///
    /// # Safety
    /// `arguments` point to values of the types that the kernel declares, in its order; what
    /// these point to on the device is valid until the launch is done, and nothing else writes to
    /// what it reads meanwhile.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        blocks: u32,
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), BackendError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.launch_with(stream, blocks, threads, 0, arguments) }
    }

    /// The same with `shared` bytes of shared memory for each block, 48 KiB at most.
    ///
    /// # Safety
    /// As for [`Kernel::launch`]; the kernel uses no more shared memory than that.
    pub unsafe fn launch_with(
        &self,
        stream: &Stream,
        blocks: u32,
        threads: u32,
        shared: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), BackendError> {
        if blocks == 0 {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: handles of one live device; the caller answers for the arguments, which the
        // driver copies before it returns.
        let status = unsafe {
            sys::cuLaunchKernel(
                self.handle,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared,
                stream.handle,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check(status, self.name)
    }
}

/// A queue of operations, which run in their order.
#[derive(Debug)]
pub struct Stream {
    handle: sys::CUstream,
    device: Arc<Device>,
}

// SAFETY: a handle that any thread may use.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver puts concurrent calls one after the other.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream that does not wait for the default stream. One that is `urgent` goes before
    /// others where both have work for the same multiprocessors.
    pub fn new(device: &Arc<Device>, urgent: bool) -> Result<Self, BackendError> {
        device.bind()?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: both are places for a number.
        let status = unsafe { sys::cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
        check(status, "ask for stream priorities")?;
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let mut handle = ptr::null_mut();
        let priority = if urgent { greatest } else { least };
        // SAFETY: `handle` is a place for a stream; a context is current.
        let status = unsafe { sys::cuStreamCreateWithPriority(&mut handle, flags, priority) };
        check(status, "make a stream")?;
        Ok(Stream { handle, device: device.clone() })
    }

    /// The device of this stream.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(super) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// Waits until all operations are done.
    pub fn synchronize(&self, operation: &'static str) -> Result<(), BackendError> {
        self.device.bind()?;
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamSynchronize(self.handle) }, operation)
    }

    /// Lets later operations wait for `event`.
    pub fn wait(&self, event: &Event) -> Result<(), BackendError> {
        self.device.bind()?;
        // SAFETY: a live stream and a live event of one device; 0 is the default.
        let status = unsafe { sys::cuStreamWaitEvent(self.handle, event.handle, 0) };
        check(status, "wait for an event")
    }

    /// Records what `launches` puts on this stream as a graph, instead of running it.
    pub fn capture(
        &self,
        launches: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<Graph, BackendError> {
        self.device.bind()?;
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
        if self.device.bind().is_ok() {
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
    pub fn new(device: &Arc<Device>, timed: bool) -> Result<Self, BackendError> {
        device.bind()?;
        let flags = match timed {
            true => sys::CUevent_flags_enum::CU_EVENT_DEFAULT,
            false => sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a place for an event; a context is current.
        check(unsafe { sys::cuEventCreate(&mut handle, flags as u32) }, "make an event")?;
        Ok(Event { handle, device: device.clone() })
    }

    /// Stands for everything that is on `stream` so far.
    pub fn record(&self, stream: &Stream) -> Result<(), BackendError> {
        self.device.bind()?;
        // SAFETY: a live event and a live stream of one device.
        check(unsafe { sys::cuEventRecord(self.handle, stream.handle) }, "record an event")
    }

    /// Waits until the event has happened; one that was never recorded has.
    pub fn synchronize(&self, operation: &'static str) -> Result<(), BackendError> {
        self.device.bind()?;
        // SAFETY: a live event.
        check(unsafe { sys::cuEventSynchronize(self.handle) }, operation)
    }

    /// Time between two timed events that have happened \[us\].
    pub fn microseconds_since(&self, earlier: &Event) -> Result<f64, BackendError> {
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
        if self.device.bind().is_ok() {
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
    /// What the recorded launches work on still is valid, as for [`Kernel::launch`].
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), BackendError> {
        self.device.bind()?;
        // SAFETY: a live graph and a live stream of one device; the caller answers for the rest.
        check(unsafe { sys::cuGraphLaunch(self.handle, stream.handle) }, "launch a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: made in `capture` and not used after.
            let _ = unsafe { sys::cuGraphExecDestroy(self.handle) };
        }
    }
}
