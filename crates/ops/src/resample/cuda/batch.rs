//! A batch in memory of its own on the device, for callers whose input is on the host.

use std::sync::Arc;

use super::{BatchPointers, Inner, Resampler};
use crate::device::{DeviceBuffer, DeviceError, Inputs, Stream, bytes_of};
use crate::resample::{BatchInput, BatchOutput, Times};

/// The memory of the input and the output of a batch.
pub struct DeviceBatch {
    /// Kept for their memory.
    _inputs: Vec<DeviceBuffer>,
    rows: Vec<u64>,
    stamps: Vec<u64>,
    /// 0 where rows are divided evenly.
    row_offsets: Vec<u64>,
    targets: DeviceBuffer,
    /// `None` if they are divided evenly.
    target_offsets: Option<DeviceBuffer>,
    data: DeviceBuffer,
    valid: DeviceBuffer,
    age_ns: DeviceBuffer,
    bytes: usize,
    report: bool,
    /// Whose it is.
    resampler: Arc<Inner>,
}

impl Resampler {
    /// Uploads an input and reserves its output. Validity and age are computed if `report`.
    ///
    /// # Panics
    /// When the input does not fit the spec ([`BatchSpec::mismatch`](super::BatchSpec::mismatch)), or the resampler's
    /// times are not nanoseconds.
    pub fn upload(&self, input: &BatchInput<'_>, report: bool) -> Result<DeviceBatch, DeviceError> {
        let Inner { spec, times, device, .. } = &*self.0;
        assert_eq!(*times, Times::Nanos, "batch: times of a resampler");
        if let Some(mismatch) = spec.mismatch(input) {
            panic!("batch: {mismatch}");
        }
        let from_bytes = |bytes: &[u8]| DeviceBuffer::from_bytes(device, bytes);
        let rows: Vec<_> = input.rows.iter().map(|b| from_bytes(b)).collect::<Result<_, _>>()?;
        let stamps = input.stamps.iter().map(|s| from_bytes(bytes_of(s)));
        let stamps: Vec<_> = stamps.collect::<Result<_, _>>()?;
        let offsets = |all: &[i64]| match all {
            [] => Ok(None),
            all => from_bytes(bytes_of(all)).map(Some),
        };
        let row_offsets = input.row_offsets.iter().map(|all| offsets(all));
        let row_offsets: Vec<_> = row_offsets.collect::<Result<_, _>>()?;
        let target_offsets = offsets(input.target_offsets)?;
        let addresses = |all: &[DeviceBuffer]| all.iter().map(DeviceBuffer::address).collect();
        let steps = spec.streams.len() * spec.targets();
        let targets = from_bytes(bytes_of(input.targets))?;
        let data = DeviceBuffer::new(device, spec.targets() * spec.row_bytes())?;
        let valid = DeviceBuffer::new(device, steps)?;
        let age_ns = DeviceBuffer::new(device, 8 * steps)?;
        let single = [&targets, &data, &valid, &age_ns];
        let bytes = rows.iter().chain(&stamps).chain(single).map(DeviceBuffer::len).sum();
        Ok(DeviceBatch {
            rows: addresses(&rows),
            stamps: addresses(&stamps),
            row_offsets: row_offsets
                .iter()
                .map(|all| all.as_ref().map_or(0, DeviceBuffer::address))
                .collect(),
            _inputs: rows
                .into_iter()
                .chain(stamps)
                .chain(row_offsets.into_iter().flatten())
                .collect(),
            targets,
            target_offsets,
            data,
            valid,
            age_ns,
            bytes,
            report,
            resampler: self.0.clone(),
        })
    }

    /// Puts a batch on a stream.
    ///
    /// # Panics
    /// When `batch` is of another resampler.
    pub fn start(
        &self,
        batch: &DeviceBatch,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        self.check_owner(batch);
        // SAFETY: the buffers are sized for the spec, and wait for the device before they go. Only
        // launches of this batch use them; of two on several streams, the outputs are unspecified.
        unsafe { self.launch(&batch.pointers(), inputs, stream) }
    }

    /// Resamples a batch and waits for it.
    ///
    /// # Panics
    /// When `batch` is of another resampler.
    pub fn run(&self, batch: &DeviceBatch, stream: &Stream) -> Result<(), DeviceError> {
        self.start(batch, Inputs::Ready, stream)?;
        stream.synchronize("resample")
    }

    /// Copies the output to the host, after everything that was started on the device.
    ///
    /// # Panics
    /// When `batch` is of another resampler.
    pub fn download(&self, batch: &DeviceBatch) -> Result<BatchOutput, DeviceError> {
        self.check_owner(batch);
        let mut output = self.0.spec.output();
        batch.data.read(&mut output.data)?;
        batch.valid.read(&mut output.valid)?;
        let mut ages = vec![0; 8 * output.age_ns.len()];
        batch.age_ns.read(&mut ages)?;
        for (age, bytes) in output.age_ns.iter_mut().zip(ages.as_chunks::<8>().0) {
            *age = i64::from_ne_bytes(*bytes);
        }
        Ok(output)
    }

    fn check_owner(&self, batch: &DeviceBatch) {
        assert!(Arc::ptr_eq(&self.0, &batch.resampler), "batch: of another resampler");
    }
}

impl DeviceBatch {
    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Addresses of the whole batch.
    pub fn pointers(&self) -> BatchPointers<'_> {
        BatchPointers {
            rows: &self.rows,
            stamps: &self.stamps,
            row_offsets: &self.row_offsets,
            targets: self.targets.address(),
            target_offsets: self.target_offsets.as_ref().map_or(0, DeviceBuffer::address),
            data: self.data.address(),
            report: self.report.then(|| [self.valid.address(), self.age_ns.address()]),
        }
    }

    /// The output's data.
    pub fn data(&self) -> &DeviceBuffer {
        &self.data
    }
}
