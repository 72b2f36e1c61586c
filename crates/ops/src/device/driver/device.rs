//! Opening a GPU: the driver, the device, its attributes and the kernels.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{self, CUresult};

use robocache_kernels::{FATBIN as KERNELS, TOOLKIT};

use super::stream::Kernel;
use super::{check, describe};
use crate::device::DeviceError;
use crate::sync::lock;

fn unavailable(detail: String) -> DeviceError {
    DeviceError::Unavailable { detail }
}

/// True if a device was opened in this process, so that there is a driver and it has been started.
static STARTED: AtomicBool = AtomicBool::new(false);
/// True if a device was left in this process. The driver may hang, so nothing calls it any more.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Tells the driver that the calling thread may reserve and free memory while another thread records a graph. Call it
/// once, at the start of a thread that only this program uses.
///
/// torch records graphs in the mode `global`. It refuses such a call of any thread of the process, and the refused call
/// also ruins the recording. The mode is there for calls that a graph would lack. No graph needs what
/// this thread does. Threads of the caller keep their mode. Does nothing if no device was opened.
pub fn own_thread() {
    if !STARTED.load(Ordering::Acquire) || LEFT.load(Ordering::Acquire) {
        return;
    }
    let mut mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: a place with the new mode, which gets the mode before. A thread's mode is a setting of the driver's for
    // that thread alone, and needs no context. A failure leaves the mode as it was.
    let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
}

/// How much of a GPU work is divided for, whatever it has.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Multiprocessors that work is divided for.
    pub multiprocessors: u32,
    /// Bytes of shared memory of each.
    pub shared_bytes: usize,
    /// True if kernels may overlap on a device that can overlap them ([`Device::overlaps`]).
    pub overlap: bool,
}

impl Limits {
    /// All that there is.
    pub const NONE: Limits =
        Limits { multiprocessors: u32::MAX, shared_bytes: usize::MAX, overlap: true };
}

/// How a GPU reaches memory of the host, as its driver says.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostAccess {
    /// It has no memory of its own, as on a Jetson.
    pub integrated: bool,
    /// The driver registers ordinary memory.
    pub registers: bool,
    /// Kernels reach registered memory at the address that the host uses. Otherwise the driver has another address for
    /// them.
    pub at_host_address: bool,
}

/// An opened GPU with the kernels loaded.
#[derive(Debug)]
pub struct Device {
    handle: sys::CUdevice,
    ordinal: usize,
    context: sys::CUcontext,
    modules: Mutex<Vec<Module>>,
    /// For copies and clears that are waited for: the default stream would wait for all others.
    setup: sys::CUstream,
    name: String,
    multiprocessors: u32,
    /// Of one multiprocessor.
    shared_bytes: usize,
    overlaps: bool,
    host_access: HostAccess,
    /// True if the device was left after a failure.
    left: AtomicBool,
}

/// A device that is current on this thread. A drop makes current what was before.
#[must_use = "the device is current only as long as this lives"]
pub(in crate::device) struct Current {
    /// `None` if it was the same.
    before: Option<sys::CUcontext>,
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the context was current on this thread, or null (no context).
            let _ = unsafe { sys::cuCtxSetCurrent(before) };
        }
    }
}

/// Loaded kernels.
#[derive(Debug)]
struct Module(sys::CUmodule);

// SAFETY: the handles are names that the driver accepts from any thread, and `Device` hands out
// no reference to what they name.
unsafe impl Send for Device {}
// SAFETY: as above; the driver synchronises its own calls.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the GPU with this ordinal and loads the kernels.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`], with the reason: no driver, a driver that is too old, no
    /// GPU, no such ordinal, a GPU older than Turing, not enough memory.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, DeviceError> {
        Self::open_within(ordinal, Limits::NONE)
    }

    /// Number of GPUs.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`]: no driver, a driver that is too old, no GPU.
    pub fn count() -> Result<usize, DeviceError> {
        init()?;
        device_count()
    }

    /// Opens a GPU, and divides work as if the GPU had no more than `limits`. So tests on a large one also run the
    /// kernels and the launches of a smaller one.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open_within(ordinal: usize, limits: Limits) -> Result<Arc<Self>, DeviceError> {
        init()?;
        STARTED.store(true, Ordering::Release);
        let handle = device_handle(ordinal)?;
        let name = device_name(handle)?;
        let mut context = ptr::null_mut();
        // SAFETY: `handle` is a device of this driver; the context is released in `drop`.
        let status = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, handle) };
        opening(status, "open the device")?;
        let mut device = Device {
            handle,
            ordinal,
            context,
            modules: Mutex::default(),
            setup: ptr::null_mut(),
            name,
            multiprocessors: 0,
            shared_bytes: 0,
            overlaps: false,
            host_access: HostAccess::default(),
            left: AtomicBool::new(false),
        };
        let _current = device.bind()?;
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a place for a stream; a context is current.
        opening(unsafe { sys::cuStreamCreate(&mut device.setup, flags) }, "make a stream")?;
        device.measure(limits)?;
        device.ask_for_host_access()?;
        device.load_own()?;
        Ok(Arc::new(device))
    }

    /// Asks for what work is divided by.
    fn measure(&mut self, limits: Limits) -> Result<(), DeviceError> {
        use sys::CUdevice_attribute_enum as attribute;
        let count = self.attribute(attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        self.multiprocessors = (count.max(0) as u32).min(limits.multiprocessors).max(1);
        let shared =
            self.attribute(attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
        self.shared_bytes = (shared.max(0) as usize).min(limits.shared_bytes);
        let major = self.attribute(attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        self.overlaps = major >= 9 && limits.overlap;
        Ok(())
    }

    /// Asks how it reaches memory of the host. Pinned memory must have one address for both, as with every 64-bit
    /// driver.
    fn ask_for_host_access(&mut self) -> Result<(), DeviceError> {
        use sys::CUdevice_attribute_enum as attribute;
        if !self.has(attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) {
            return Err(unavailable(format!(
                "{}: expected unified addressing, which this driver lacks",
                self.name
            )));
        }
        self.host_access = HostAccess {
            integrated: self.has(attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED),
            registers: self.has(attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED),
            at_host_address: self
                .has(attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
        };
        Ok(())
    }

    fn load_own(&self) -> Result<(), DeviceError> {
        // SAFETY: a complete fat binary.
        match unsafe { self.add_module(KERNELS) } {
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => Err(unavailable(format!(
                "{}: expected compute capability 7.5 or later, for which the kernels are built",
                self.name
            ))),
            status => opening(status, "load the kernels"),
        }
    }

    /// Loads more kernels, which [`Device::kernel`] finds from then on: those of a benchmark, say.
    ///
    /// # Safety
    /// `image` is a complete fat binary, as nvcc makes it.
    pub unsafe fn load(&self, image: &[u8]) -> Result<(), DeviceError> {
        let _current = self.bind()?;
        // SAFETY: the caller's promise is the same.
        check(unsafe { self.add_module(image) }, "load kernels")
    }

    /// As [`Device::load`], with the context current.
    unsafe fn add_module(&self, image: &[u8]) -> CUresult {
        let mut module = ptr::null_mut();
        // SAFETY: a complete fat binary, and a place for a module; the context is current.
        let status = unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) };
        if status == CUresult::CUDA_SUCCESS {
            lock(&self.modules).push(Module(module));
        }
        status
    }

    /// Name of the GPU.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Number of its multiprocessors that are used, at least 1.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// True if a kernel can be started while the one before it on its stream ends ("programmatic
    /// dependent launch", from compute capability 9.0 on).
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// Bytes of shared memory that each of `blocks` blocks of one multiprocessor can have.
    pub fn shared_bytes(&self, blocks: usize) -> Result<usize, DeviceError> {
        use sys::CUdevice_attribute_enum as attribute;
        let bytes = |which| Ok::<_, DeviceError>(self.attribute(which)?.max(0) as usize);
        let kept = bytes(attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?;
        let most = bytes(attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        Ok((self.shared_bytes / blocks).saturating_sub(kept).min(most))
    }

    /// Bytes of its second-level cache.
    pub fn cache_bytes(&self) -> Result<usize, DeviceError> {
        let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        Ok(self.attribute(attribute)?.max(0) as usize)
    }

    /// Bytes of device memory that are free, on the whole GPU.
    pub fn free_bytes(&self) -> Result<usize, DeviceError> {
        let _current = self.bind()?;
        let mut free = 0;
        let mut total = 0;
        // SAFETY: both are places for a number; a context is current.
        let status = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
        check(status, "ask for free memory")?;
        Ok(free)
    }

    /// How it reaches memory of the host.
    pub fn host_access(&self) -> HostAccess {
        self.host_access
    }

    /// True if the device has the feature that an attribute names. False if the driver does not say.
    fn has(&self, attribute: sys::CUdevice_attribute_enum) -> bool {
        self.attribute(attribute).is_ok_and(|has| has > 0)
    }

    fn attribute(&self, attribute: sys::CUdevice_attribute_enum) -> Result<i32, DeviceError> {
        let mut value = 0;
        // SAFETY: `value` is a place for a number and `handle` a device.
        let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.handle) };
        check(status, "ask for a device attribute")?;
        Ok(value)
    }

    /// True if contexts on this GPU are shared through MPS, the multi-process service: kernels of
    /// several processes then run side by side, not in turns. False if the driver does not say.
    pub fn uses_mps(&self) -> bool {
        self.has(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MPS_ENABLED)
    }

    /// Leaves the device after a failure, for good. From now on every call here is an error and
    /// does not reach the driver, which may hang. This process opens no device again. Nothing is freed
    /// any more, because the GPU may still read and write it: memory, streams and the context stay
    /// until the process ends.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Release);
        LEFT.store(true, Ordering::Release);
    }

    /// True if the device was left.
    pub fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Makes the device current on the calling thread, until the result is dropped: every call below
    /// needs it, and any thread may be the one that encodes. Another library that uses the driver on
    /// this thread finds its own device current again.
    pub(in crate::device) fn bind(&self) -> Result<Current, DeviceError> {
        let operation = "make the device current";
        if self.is_left() {
            let detail = "the GPU was left after a failure".into();
            return Err(DeviceError::Failed { operation, detail });
        }
        let mut before = ptr::null_mut();
        // SAFETY: a place for a context.
        check(unsafe { sys::cuCtxGetCurrent(&mut before) }, operation)?;
        if before == self.context {
            return Ok(Current { before: None });
        }
        // SAFETY: the context is retained until `drop`.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, operation)?;
        Ok(Current { before: Some(before) })
    }

    /// True if the device is current on the calling thread.
    pub fn is_current(&self) -> bool {
        let mut context = ptr::null_mut();
        // SAFETY: a place for a context; there is a driver, as a device was opened.
        let status = unsafe { sys::cuCtxGetCurrent(&mut context) };
        status == CUresult::CUDA_SUCCESS && context == self.context
    }

    /// Puts an operation on the set-up stream, and waits for it.
    pub(in crate::device) fn at_once(
        &self,
        operation: &'static str,
        start: impl FnOnce(sys::CUstream) -> CUresult,
    ) -> Result<(), DeviceError> {
        let _current = self.bind()?;
        check(start(self.setup), operation)?;
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamSynchronize(self.setup) }, operation)
    }

    /// Waits until everything that was started on the device is done.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        let _current = self.bind()?;
        // SAFETY: a context is current.
        check(unsafe { sys::cuCtxSynchronize() }, "wait for the device")
    }

    /// Finds a kernel by its name.
    pub fn kernel(self: &Arc<Self>, name: &str) -> Result<Kernel, DeviceError> {
        let _current = self.bind()?;
        let mut handle = ptr::null_mut();
        let c_name = CString::new(name).unwrap_or_default();
        let mut status = CUresult::CUDA_ERROR_NOT_FOUND;
        for Module(module) in lock(&self.modules).iter() {
            // SAFETY: the module is loaded and `c_name` ends in a zero.
            status = unsafe { sys::cuModuleGetFunction(&mut handle, *module, c_name.as_ptr()) };
            if status != CUresult::CUDA_ERROR_NOT_FOUND {
                break;
            }
        }
        check(status, "find a kernel")?;
        Ok(Kernel::new(handle, name, self.clone()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.is_left() {
            return; // The release would wait for the GPU.
        }
        // SAFETY: all were acquired in `open`; objects that use them hold the device alive. A
        // failure here leaves nothing to be done.
        unsafe {
            if let Ok(_current) = self.bind() {
                if !self.setup.is_null() {
                    let _ = sys::cuStreamDestroy_v2(self.setup);
                }
                for Module(module) in lock(&self.modules).drain(..) {
                    let _ = sys::cuModuleUnload(module);
                }
            }
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.handle);
        }
    }
}

/// Like [`check`], for the calls that open a device.
fn opening(status: CUresult, operation: &str) -> Result<(), DeviceError> {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(unavailable(format!("cannot {operation}: {}", describe(status)))),
    }
}

/// Starts the driver and checks its version.
fn init() -> Result<(), DeviceError> {
    if LEFT.load(Ordering::Acquire) {
        let detail = "this process left a GPU after a failure: start it again to use one";
        return Err(unavailable(detail.into()));
    }
    // SAFETY: looks for the library and runs nothing of ours; loading the driver's library
    // runs the driver's own initialisers.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable("no NVIDIA driver on this machine (libcuda.so.1)".into()));
    }
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

/// Number of GPUs. The driver has been started.
fn device_count() -> Result<usize, DeviceError> {
    let mut count = 0;
    // SAFETY: `count` is a place for a number; the driver has been started.
    opening(unsafe { sys::cuDeviceGetCount(&mut count) }, "count the devices")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn device_handle(ordinal: usize) -> Result<sys::CUdevice, DeviceError> {
    let count = device_count()?;
    let index = Some(ordinal).filter(|index| *index < count);
    let index = index.and_then(|index| i32::try_from(index).ok()).ok_or_else(|| {
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

fn device_name(handle: sys::CUdevice) -> Result<String, DeviceError> {
    let mut name = [0u8; 256];
    // SAFETY: `name` has the length that is passed, and the driver ends it with a zero.
    let status =
        unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, handle) };
    opening(status, "ask for the device's name")?;
    let text = CStr::from_bytes_until_nul(&name).map(|text| text.to_string_lossy().into_owned());
    Ok(text.unwrap_or_default())
}
