//! Places of the parts of a tensor message: Python's views are made from them.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use robocache_core::message::{Places, SegmentPlaces};

use crate::dlpack::Array;
use crate::errors::wrong;

/// Stamp \[ns\], run, epoch, tick and digest.
pub(crate) type Head = (i64, u64, u64, u64, u64);
/// The base frame, whether numbers are big-endian, begin and length of the data, the segments.
pub(crate) type PlacesFound = (String, bool, (usize, usize), Vec<SegmentFound>);
/// Name, type, shape, and where its elements and its steps are.
type SegmentFound = (String, &'static str, Vec<usize>, usize, (usize, usize, usize, usize, usize));

/// Finds and checks the parts of a message: `bytes`, or an array of uint8.
#[pyfunction]
pub(crate) fn read_message(message: &Bound<'_, PyAny>) -> PyResult<(Head, PlacesFound)> {
    let read = |bytes: &[u8]| {
        let places = Places::read(bytes).map_err(wrong)?;
        Ok((head(&places, bytes), found(&places)))
    };
    match message.cast::<PyBytes>() {
        Ok(bytes) => read(bytes.as_bytes()),
        Err(_) => read(Array::read(message, "message", -1)?.bytes("message")?),
    }
}

/// The head of a message.
pub(crate) fn head(places: &Places, message: &[u8]) -> Head {
    let stamp_ns = places.stamp(message).nanos();
    let run = places.run(message);
    let epoch = places.epoch(message);
    (stamp_ns, run, epoch, places.tick(message), places.digest(message))
}

/// Places, for Python.
pub(crate) fn found(places: &Places) -> PlacesFound {
    let segment = |segment: &SegmentPlaces| {
        let SegmentPlaces { name, dtype, shape, data, steps_at } = segment;
        (name.clone(), dtype.name(), shape.clone(), data.start, (*steps_at).into())
    };
    let segments = places.segments.iter().map(segment).collect();
    let data = (places.data.start, places.data.len());
    (places.frame_id.clone(), places.big_endian, data, segments)
}
