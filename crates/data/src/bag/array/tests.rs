use super::*;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Accepted, Arrival, NotTaken, Pipeline};
use robocache_core::spec::InputId;

const CONFIG: &str = "
rate_hz: 10
lag_ms: 0
defaults:
  vector: {max_age_ms: 200, strategy: hold, dtype: f32}
  image: {max_age_ms: 200, strategy: hold, dtype: u8, image: {resize: {width: 2, height: 1}}}
streams:
  arm: {type: sensor_msgs/JointState, topic: /arm, joints: [b, a], fields: [position]}
  groups: {type: sensor_msgs/JointState, topic: /arm, groups: {one: [a], two: [b, z]}, fields: [position]}
  speed: {type: sensor_msgs/JointState, topic: /arm, joints: [a], fields: [velocity]}
  pixels: {type: sensor_msgs/Image, topic: /pixels}
  file: {type: sensor_msgs/CompressedImage, topic: /file}
";

/// A PNG of two pixels: red and blue.
const PNG: &[u8] =
    b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x02\x00\x00\x00\x01\x08\
    \x02\x00\x00\x00{@\xe8\xdd\x00\x00\x00\x0dIDATx\x9cc\xf8\xcf\x00\x04\xff\x01\x07\
    \x00\x01\xff\xe2#\x9eY\x00\x00\x00\x00IEND\xaeB`\x82";

fn pipeline() -> Pipeline {
    let config = config::parse(CONFIG, "test.yaml").unwrap();
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    Pipeline::new(config, Arc::new(backend)).unwrap()
}

/// The outcome, in words, without the numbers of the changes: not all arrays are pushed ahead.
fn said(outcome: Result<Accepted, NotTaken>) -> String {
    format!("{:?}", outcome.map(|accepted| Accepted { changes: None, ..accepted }))
}

/// The tensor of tick 10, at 1 s.
fn tensor(pipeline: &Pipeline) -> Vec<u8> {
    let mut message = pipeline.new_message();
    pipeline.tick(10, robocache_ops::time::Epoch::default(), &mut message).unwrap();
    message.data().to_vec()
}

#[test]
fn an_array_gives_what_the_message_with_its_values_gives() {
    let at = |ms: i64| Stamp::from_nanos(ms * 1_000_000);
    let positions: Vec<u8> = [1.5_f64, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let not_finite: Vec<u8> =
        [f64::NAN, 1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let joints = |names: [&str; 2]| TopicArray::Joints(names.map(str::to_owned).to_vec());
    let pixels = [9, 8, 7, 255, 254, 253];
    let given: [(&[usize], TopicArray, &[u8], Stamp); 8] = [
        (&[0, 1, 2], joints(["a", "b"]), &positions, at(900)),
        (&[0, 1, 2], joints(["b", "a"]), &positions, at(950)),
        (&[0, 1, 2], joints(["a", "c"]), &positions, at(960)),
        (&[0, 1, 2], joints(["a", "b"]), &not_finite, at(970)),
        (&[0], joints(["a", "b"]), &positions, Stamp::ZERO),
        (&[3], TopicArray::Pixels([2, 1]), &pixels, at(980)),
        (&[4], TopicArray::Picture, PNG, at(980)),
        (&[4], TopicArray::Picture, b"no picture", at(990)),
    ];
    let [arrays, messages, ahead] = [(); 3].map(|()| pipeline());
    let mut dropped = 0;
    for (inputs, array, data, received) in given {
        let bytes = Bytes::copy_from_slice(data);
        let array = ReceivedArray { array: Arc::new(array), received, bytes };
        let arrival = Arrival { stamp: Some(received), ..Arrival::default() };
        for input in inputs.iter().map(|at| InputId::new(*at)) {
            let (header, sample) = array.read();
            let expected = said(messages.push(input, &array.message(), arrival));
            assert_eq!(said(arrays.push_sample(input, &header, &sample, arrival)), expected);
            if arrays.config().encodes_ahead(input) {
                let encoded = ahead.encode_sample_ahead(input, &header, &sample);
                assert_eq!(said(ahead.push_ahead(input, encoded, arrival)), expected);
            }
            dropped += usize::from(expected.starts_with("Err"));
        }
    }
    assert!(dropped > 5, "found {dropped}");
    assert_eq!(tensor(&arrays), tensor(&messages));
    assert!(tensor(&arrays).iter().any(|byte| *byte != 0));
}
