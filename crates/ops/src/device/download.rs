//! From device memory to the memory of a row on the host.

use std::sync::Arc;
use std::time::Duration;

use super::driver::{Device, Stream};
use super::{DeviceBuffer, DeviceError, HostBuffer};

/// A row on the device, and memory of the host that it is copied to.
///
/// The host's memory is out of reach while a copy is under way. If the copy cannot be waited for,
/// that lasts for ever: then the memory is never read, written or freed.
#[derive(Debug)]
pub struct Download {
    row: DeviceBuffer,
    /// `None` only in `drop`.
    host: Option<HostBuffer>,
    under_way: bool,
}

impl Download {
    /// Memory for rows of `len` bytes. Where the driver does not take the host's memory, copies are
    /// slower, and no less right.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, DeviceError> {
        let mut host = HostBuffer::new(len);
        if let Err(error) = host.register(device) {
            tracing::warn!("rows take longer from the GPU to the host: {error}");
        }
        Ok(Download { row: DeviceBuffer::new(device, len)?, host: Some(host), under_way: false })
    }

    /// The row on the device.
    pub fn row(&self) -> &DeviceBuffer {
        &self.row
    }

    /// Copies the row after everything that is on `stream`, and waits for that until `limit` has
    /// passed.
    ///
    /// # Errors
    /// Those of [`Stream::wait_for`]. The host's memory is then out of reach.
    pub fn copy(
        &mut self,
        stream: &Stream,
        limit: Duration,
        operation: &'static str,
    ) -> Result<(), DeviceError> {
        let Some(host) = &mut self.host else { return Ok(()) };
        // From here on, also if the call fails: a copy may be under way.
        self.under_way = true;
        // SAFETY: while `under_way`, no caller gets the host's memory, and `drop` keeps it.
        unsafe { self.row.download_on(host, stream)? };
        stream.wait_for(limit, operation)?;
        self.under_way = false;
        Ok(())
    }

    /// The host's memory, which may be exchanged for other memory of the same size; `None` while a
    /// copy is under way.
    pub fn host(&mut self) -> Option<&mut HostBuffer> {
        self.host.as_mut().filter(|_| !self.under_way)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // After a failure, the copy may still run: its memory stays.
        if self.under_way && self.row.settle().is_err() {
            std::mem::forget(self.host.take());
        }
    }
}
