use super::*;

const INPUTS: usize = 2;

/// A stream with two inputs, three rows and clouds of 50 points at most.
fn spec() -> StreamSpec {
    let text = "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    ring_rows: 3
    inputs: [{topic: /front}, {topic: /rear}]
    cloud:
      {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}], max_points: 50}
";
    crate::config::parse(text, "test.yaml").unwrap().streams.remove(0)
}

/// Keeps a cloud of points at zero from each input.
fn keep(merge: &mut Merge, ns: i64, width: usize) {
    let fields = [0, 4, 8].map(|offset| FieldAt { offset, kind: FieldType::Float32 });
    let data = vec![0; 12 * width];
    let view = PointsView {
        width,
        height: 1,
        point_step: 12,
        row_step: 12 * width,
        big_endian: false,
        fields: &fields,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: None,
        data: &data,
    };
    for input in 0..INPUTS {
        merge.keep(input, Stamp::from_nanos(ns), &view).unwrap();
    }
}

/// The memory of all clouds, in use or spare \[bytes\].
fn memory(merge: &Merge) -> usize {
    let kept = merge.inputs.iter().flatten().map(|cloud| &cloud.points);
    kept.chain(&merge.spare).chain([&merge.joined]).map(Vec::capacity).sum()
}

/// Clouds of different sizes, and the row of the largest: all memory is that of largest clouds.
#[test]
fn clouds_take_the_memory_that_is_reported_and_no_more() {
    let spec = spec();
    let mut merge = Merge::of(&spec).unwrap();
    // The last one takes the place of the second, whose memory is spare.
    for (ns, width) in [(1, 7), (2, 50), (3, 33), (2, 50)] {
        keep(&mut merge, ns, width);
    }
    merge.gather(Stamp::from_nanos(2));
    assert_eq!(merge.view().width, 100);
    assert_eq!(Some(memory(&merge)), spec.kept_bytes());
}

#[test]
fn an_epoch_forgets_the_clouds_of_all_inputs_and_keeps_their_memory() {
    let mut merge = Merge::of(&spec()).unwrap();
    for ns in 1..=3 {
        keep(&mut merge, ns, 50);
    }
    let before = memory(&merge);
    // A second beginning of the same epoch changes nothing.
    merge.begin(Epoch::default());
    assert_eq!(merge.inputs.iter().map(VecDeque::len).collect::<Vec<_>>(), [3; INPUTS]);
    merge.begin(Epoch::default().next(None));
    assert!(merge.inputs.iter().all(VecDeque::is_empty));
    merge.gather(Stamp::from_nanos(3));
    assert_eq!((merge.view().width, &merge.until[..]), (0, &[None; INPUTS][..]));
    assert_eq!((merge.spare.len(), memory(&merge)), (3 * INPUTS, before));
}
