//! Messages that robocache writes itself: tensors, what they mean, and the events of a recording. The first byte
//! chooses.

use robocache_core::message::{TensorInfo, TensorRead};
use robocache_data::recording::RecordingEvent;

pub(crate) fn run(input: &[u8]) {
    let Some((choice, message)) = input.split_first() else { return };
    match choice % 3 {
        0 => tensor(message),
        1 => info(message),
        _ => event(message),
    }
}

/// Each step has the bytes that the shape says.
fn tensor(message: &[u8]) {
    let Ok(tensor) = TensorRead::read(message) else { return };
    for segment in &tensor.segments {
        assert_eq!(segment.shape[0], segment.valid.len());
        // The other dimensions may be too large to be multiplied.
        let is_empty = segment.shape.contains(&0);
        let elements: usize = if is_empty { 0 } else { segment.shape[1..].iter().product() };
        for at in 0..segment.valid.len() {
            let step = segment.step(at).expect("a step for each flag");
            assert_eq!(step.bytes.len(), elements * segment.dtype.size());
        }
        assert!(segment.step(segment.valid.len()).is_none());
        let _ = segment.newest();
    }
}

/// Checks that an info, written again, is read as it was.
fn info(message: &[u8]) {
    let Ok(mut info) = TensorInfo::read(message) else { return };
    // One of a few bytes passes for the padding of a middleware.
    info.contract.clear();
    let written = info.to_cdr();
    let again = TensorInfo::read(&written).expect("what was written");
    // Compared as bytes, because a rate may be NaN.
    assert_eq!(again.to_cdr(), written);
}

fn event(message: &[u8]) {
    let Ok(event) = RecordingEvent::read(message) else { return };
    let written = event.write();
    let again = RecordingEvent::read(&written).expect("what was written");
    assert_eq!(again.write(), written);
}
