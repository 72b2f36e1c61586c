//! In a build without CUDA no output is on a device.

/// The data of an output on the device. A build without CUDA has no such data.
#[derive(Debug)]
pub enum DeviceOutput {}

impl DeviceOutput {
    /// Its address on the device.
    pub fn address(&self) -> u64 {
        match *self {}
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match *self {}
    }

    /// Never: there is one byte at least.
    pub fn is_empty(&self) -> bool {
        match *self {}
    }

    /// The number of the GPU.
    pub fn ordinal(&self) -> usize {
        match *self {}
    }

    /// Notes that a stream of another library reads from now on.
    ///
    /// # Errors
    /// Never.
    ///
    /// # Safety
    /// It is never called.
    pub unsafe fn read_on(&self, _: u64) -> Result<(), super::DeviceError> {
        match *self {}
    }

    /// Notes that no further readers will be put on streams.
    pub fn let_go(&self) {
        match *self {}
    }

    /// True if everything that read the memory is done.
    pub fn is_free(&self) -> bool {
        match *self {}
    }

    /// Copies all of it to the host.
    pub fn download(&self, _: &mut [u8]) -> Result<(), super::DeviceError> {
        match *self {}
    }
}
