//! Maps, cropped around a robot that moves: by the tree of frames at the stamp of each map.

use robocache_core::backend::StepJob;
use robocache_core::encoder::{Drawn, EncoderSpec};
use robocache_core::pipeline::{Arrival, NotTaken};
use robocache_core::rejected::DropReason;
use robocache_core::sample::Sample;
use robocache_core::spec::{RingId, StreamId};
use robocache_ops::align::{Slot, Strategy, Value};
use robocache_ops::dtype::DType;
use robocache_ops::map::MapView;
use robocache_ops::occupancy::{Between, OccupancySpec};
use robocache_ops::voxelize::IDENTITY;

use super::Keys;
use crate::backends::on_every_backend;
use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair, stream};
use crate::common::maps::{MAP, map, push_robot, row};
use crate::common::pipeline;

const CONFIG: &str = "
rate_hz: 100
streams:
  map:
    type: nav_msgs/OccupancyGrid
    topic: /map
    max_age_ms: 1000
    occupancy: {size_m: [3, 1], resolution_m: 1, max_width_cells: 6}
";

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

on_every_backend! { maps => check; }

/// Rows in each ring.
const SLOTS: usize = 3;

/// A core encodes maps under every backend, and a GPU only takes their rows.
fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(10) {
        let mut random = Random::new(number as u64 + 90_000);
        let dtype = random.choose(&[DType::F32, DType::F16, DType::Bf16, DType::U8]);
        let spec = OccupancySpec {
            width: random.range(1, 40),
            height: random.range(1, 40),
            resolution_m: 0.1,
            free: 0.0,
            occupied: 100.0,
            unknown: 255.0,
            free_max: 25,
            occupied_min: 65,
            between: random.choose(&[Between::Probability, Between::Unknown]),
        };
        let case = format!("pair {number}: {spec:?} {dtype:?}");
        let encoder = EncoderSpec::Occupancy(spec);
        let spec = stream("map", encoder, Strategy::Hold, dtype, 1, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![spec], number % 3 != 0);
        for slot in 0..2 * SLOTS {
            let slot = slot % SLOTS;
            let width = random.range(1, 60);
            let height = random.range(1, 60);
            let data: Vec<u8> = (0..width * height).map(|_| random.bits() as u8).collect();
            let mut t_crop_frame = IDENTITY;
            t_crop_frame.iter_mut().for_each(|row| row[3] = f64::from(random.float(-3.0, 3.0)));
            let view = MapView {
                width,
                height,
                resolution_m: 0.05,
                t_frame_map: IDENTITY,
                t_crop_frame,
                data: &data,
            };
            pair.encode(0, slot, Sample::Map(view), &case);
            let ring = RingId::new(0);
            let value = Value::Row(Slot::new(slot));
            pair.fuse(&[StepJob { ring, step: 0, value, unchanged: false }], |_| true, &case);
        }
    }
}

/// A map.
const MAPS: &str = "
rate_hz: 10
streams:
  map:
    type: nav_msgs/msg/OccupancyGrid
    topic: /map
    max_age_ms: 1000
    occupancy:
      size_m: [6, 6]
      resolution_m: 0.05
      frame: base_link
      free: 0
      occupied: 1
      unknown: 0.5
      free_max: 25
      occupied_min: 65
      between: probability
      max_width_cells: 1000
      max_height_cells: 900
";

pub(super) const KEYS: &[Keys] = &[Keys {
    config: MAPS,
    refused: &[
        ("streams.occupancy", "[6, 6]", "[6, 7]"),
        ("streams.occupancy.size_m", "[6, 6]", "[7, 6]"),
        ("streams.occupancy.resolution_m", "resolution_m: 0.05", "resolution_m: 0.06"),
        ("streams.occupancy.frame", "frame: base_link", "frame: arm"),
        ("streams.occupancy.free", "free: 0", "free: 0.1"),
        ("streams.occupancy.occupied", "occupied: 1", "occupied: 0.9"),
        ("streams.occupancy.unknown", "unknown: 0.5", "unknown: 0.4"),
        ("streams.occupancy.free_max", "free_max: 25", "free_max: 26"),
        ("streams.occupancy.occupied_min", "occupied_min: 65", "occupied_min: 66"),
        ("streams.occupancy.between", "between: probability", "between: unknown"),
    ],
    accepted: &[
        ("streams.occupancy.max_width_cells", "max_width_cells: 1000", "max_width_cells: 1001"),
        ("streams.occupancy.max_height_cells", "max_height_cells: 900", "max_height_cells: 901"),
    ],
    limits: &["streams.max_width_cells", "streams.max_height_cells"],
    ..Keys::NONE
}];
