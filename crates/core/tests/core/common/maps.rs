//! Maps and a robot that moves in them, for the encoders of maps.

use robocache_core::cdr::Writer;
use robocache_core::pipeline::{Arrival, Pipeline, TickOutcome};
use robocache_core::spec::{InputId, SegmentId};
use robocache_ops::time::{Epoch, Stamp};

use super::values;

const MS: i64 = 1_000_000;
/// The input of the first stream.
pub(crate) const MAP: InputId = InputId::new(0);

/// A map of one line of cells of 1 m, whose lower corner is the origin of `map`.
pub(crate) fn map(ms: i64, cells: &[i8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(ms * MS), "map");
    writer.i32(0);
    writer.u32(0);
    writer.f32(1.0);
    writer.u32(cells.len() as u32);
    writer.u32(1);
    writer.f64_array(&[0.0; 3]);
    writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    writer.bytes(&cells.iter().map(|cell| *cell as u8).collect::<Vec<_>>());
    writer.finish()
}

/// Says where the robot is in the map.
pub(crate) fn push_robot(pipeline: &Pipeline, ms: i64, x: f64) {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.header(Stamp::from_nanos(ms * MS), "map");
    writer.string("base_link");
    writer.f64_array(&[x, 0.5, 0.0]);
    writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    let at = pipeline.config().inputs.iter().position(|input| input.name == "tf").unwrap();
    pipeline.push(InputId::new(at), &writer.finish(), Arrival::default()).unwrap();
}

/// Serves the tick at an instant. Returns the row of the first stream, which is valid.
pub(crate) fn row(pipeline: &Pipeline, ms: i64) -> Vec<f32> {
    let mut message = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(Stamp::from_nanos(ms * MS));
    assert_eq!(pipeline.tick(tick, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert!(message.steps(SegmentId::new(0))[0].valid);
    values(pipeline, &message, SegmentId::new(0))
}
