//! The data of an output in memory of the device, and who still reads it.

use std::sync::{Arc, Mutex};

use super::driver::{Device, Event, Stream};
use super::{DeviceBuffer, DeviceError};
use crate::sync::lock;

/// The data of an output on the device. Other libraries read it on streams of their own: it notes which, so that
/// it is written again only when what they had put there is done.
#[derive(Debug)]
pub struct DeviceOutput {
    buffer: DeviceBuffer,
    device: Arc<Device>,
    readers: Mutex<Vec<Reader>>,
}

#[derive(Debug)]
struct Reader {
    stream: Stream,
    /// When it has read: made at first, so that the end of its use asks the driver for little.
    done: Event,
    /// True if `done` is on the stream, because no caller can put further readers there.
    has_ended: bool,
}

impl DeviceOutput {
    /// Reserves `len` bytes, zero at first.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, DeviceError> {
        let buffer = DeviceBuffer::new(device, len)?;
        Ok(DeviceOutput { buffer, device: device.clone(), readers: Mutex::default() })
    }

    /// Its address on the device.
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Never: there is one byte at least.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The number of the GPU.
    pub fn ordinal(&self) -> usize {
        self.device.ordinal()
    }

    /// Notes that a stream of another library reads from now on.
    ///
    /// # Errors
    /// The stream records a graph, which would read the memory whenever it is launched; or the driver makes no event.
    ///
    /// # Safety
    /// `handle` is that of a stream of the device's primary context, and stays one until this is free again.
    pub unsafe fn read_on(&self, handle: u64) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise is the same.
        let stream = unsafe { Stream::of_caller(&self.device, handle) };
        if records_graph(&stream) {
            let detail = "expected a stream that records no graph: copy the tensor outside".into();
            return Err(DeviceError::Failed { operation: "hand a tensor over", detail });
        }
        let mut readers = lock(&self.readers);
        if readers.iter().all(|reader| !reader.stream.is(handle)) {
            let done = Event::new(&self.device, false)?;
            readers.push(Reader { stream, done, has_ended: false });
        }
        Ok(())
    }

    /// Notes that no further readers will be put on streams.
    pub fn let_go(&self) {
        lock(&self.readers).iter_mut().for_each(Reader::end);
    }

    /// True if everything that read the memory is done, so that it may be written. Waits for nothing.
    pub fn is_free(&self) -> bool {
        let mut readers = lock(&self.readers);
        readers.iter_mut().for_each(Reader::end);
        let free = |reader: &Reader| reader.has_ended && reader.done.has_happened();
        let all = readers.iter().all(free);
        if all {
            readers.clear();
        }
        all
    }

    /// Copies all of it to the host, and waits for that copy alone.
    ///
    /// # Panics
    /// When `out` has another size.
    pub fn download(&self, out: &mut [u8]) -> Result<(), DeviceError> {
        assert_eq!(out.len(), self.len(), "download: length mismatch");
        self.buffer.read_at_once(out)
    }
}

impl Reader {
    /// Marks the end of what is on the stream. While a graph is recorded there, it is marked later.
    fn end(&mut self) {
        if self.has_ended || records_graph(&self.stream) {
            return;
        }
        self.has_ended = self.done.record(&self.stream).is_ok();
    }
}

/// True if a graph is captured on a stream, or if the driver does not tell.
fn records_graph(stream: &Stream) -> bool {
    stream.is_capturing().unwrap_or(true)
}
