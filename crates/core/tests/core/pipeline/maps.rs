//! Maps, cropped around a robot that moves: by the tree of frames at the stamp of each map.

use robocache_core::cdr::Writer;
use robocache_core::encoder::Drawn;
use robocache_ops::dtype::DType;

use super::*;

const CONFIG: &str = "
rate_hz: 100
streams:
  map:
    type: nav_msgs/OccupancyGrid
    topic: /map
    max_age_ms: 1000
    occupancy: {size_m: [3, 1], resolution_m: 1, max_width_cells: 6}
";
const MAP: InputId = InputId::new(0);

/// A map of one line of cells of 1 m, whose lower corner is the origin of `map`.
fn map(ms: i64, cells: &[i8]) -> Vec<u8> {
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
fn push_robot(pipeline: &Pipeline, ms: i64, x: f64) {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.header(Stamp::from_nanos(ms * MS), "map");
    writer.string("base_link");
    writer.f64_array(&[x, 0.5, 0.0]);
    writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    let at = pipeline.config().inputs.iter().position(|input| input.name == "tf").unwrap();
    pipeline.push(InputId::new(at), &writer.finish(), Arrival::default()).unwrap();
}

fn row(pipeline: &Pipeline, ms: i64) -> Vec<f32> {
    let mut message = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(Stamp::from_nanos(ms * MS));
    assert_eq!(pipeline.tick(tick, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert!(message.steps(SegmentId::new(0))[0].valid);
    values(pipeline, &message, SegmentId::new(0))
}

#[test]
fn a_map_waits_for_its_transform_and_is_cropped_where_the_robot_was_at_its_stamp() {
    let pipeline = pipeline(CONFIG);
    let message = map(90, &[0, 100, -1, 50]);
    let waits = pipeline.push(MAP, &message, Arrival::default());
    assert!(matches!(waits, Err(NotTaken::Waits(_))), "{waits:?}");
    push_robot(&pipeline, 80, 1.0);
    push_robot(&pipeline, 100, 2.0);
    pipeline.push(MAP, &message, Arrival::default()).unwrap();
    // At 90 ms the robot is above the middle of the second cell.
    assert_eq!(row(&pipeline, 100), [0.0, 1.0, 0.5]);
    // The row stays until the next map, although the robot has moved on.
    push_robot(&pipeline, 150, 3.5);
    assert_eq!(row(&pipeline, 150), [0.0, 1.0, 0.5]);
    pipeline.push(MAP, &map(150, &[0, 100, -1, 100]), Arrival::default()).unwrap();
    assert_eq!(row(&pipeline, 150), [0.5, 1.0, 0.5]);
    // The second cell is unknown, and the last one is outside of the map.
}

#[test]
fn a_map_beyond_the_bounds_is_dropped_and_a_frame_of_its_own_is_asked_for() {
    let config = CONFIG.replace("max_width_cells: 6", "frame: map");
    let own = pipeline(&config);
    own.push(MAP, &map(90, &[100, 0]), Arrival::default()).unwrap();
    // The crop is centred on the corner of the map.
    assert_eq!(row(&own, 100), [0.5, 1.0, 0.0]);
    let pipeline = pipeline(CONFIG);
    push_robot(&pipeline, 80, 1.0);
    push_robot(&pipeline, 100, 2.0);
    match pipeline.push(MAP, &map(90, &[0; 7]), Arrival::default()) {
        Err(NotTaken::Dropped(why)) => assert_eq!(why.reason, DropReason::TooLarge),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_map_describes_itself() {
    let config = CONFIG.replace("max_width_cells: 6", "free: 10, occupied: 5");
    let pipeline = pipeline(&config);
    let info = &pipeline.segment_infos(&[])[0];
    assert_eq!(
        (info.encoder.as_str(), &info.channels[..]),
        ("occupancy", &["occupancy".to_owned()][..])
    );
    assert_eq!((&info.shape[..], &info.origin_m[..]), (&[1, 1, 1, 3][..], &[-1.5, -0.5][..]));
    let spec = pipeline.config().stream(StreamId::new(0));
    assert_eq!((spec.encoder.axes().len(), spec.encoder.row_len()), (3, 3));
    let Drawn::Colors { normalisation: [mean, std], .. } = spec.encoder.drawn(DType::F32) else {
        panic!()
    };
    let drawn = |value: f32| 255.0 * (std[0] * value + mean[0]);
    assert_eq!((drawn(10.0), drawn(5.0)), (255.0, 0.0));
}
