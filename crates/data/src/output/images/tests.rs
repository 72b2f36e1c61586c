use super::*;
use robocache_core::config;

const CAMERA: &str = "
  NAME:
    type: sensor_msgs/msg/Image
    topic: /NAME
    max_age_ms: 100
    dtype: DTYPE
    image: {resize: {width: 20, height: 10}, layout: LAYOUT, color: COLOR}
";

fn parsed(cameras: &[[&str; 4]]) -> Config {
    let of = |[name, dtype, layout, color]: &[&str; 4]| {
        let text = CAMERA.replace("NAME", name).replace("DTYPE", dtype);
        text.replace("LAYOUT", layout).replace("COLOR", color)
    };
    let streams: String = cameras.iter().map(of).collect();
    let joints = "
  joints: {type: sensor_msgs/msg/JointState, topic: /joints, joints: [a], max_age_ms: 50}
";
    config::parse(&format!("rate_hz: 10\nstreams:{streams}{joints}"), "images.yaml").unwrap()
}

#[test]
fn words_are_read_as_they_are_written() {
    for words in ["zstd", "jpeg:1", "jpeg:95", "jpeg:100"] {
        assert_eq!(words.parse::<Images>().unwrap().to_string(), words);
    }
    for words in ["jpeg", "jpeg:", "jpeg:0", "jpeg:101", "jpeg:9.5", "png", "jpeg:-1", ""] {
        let error = words.parse::<Images>().unwrap_err();
        assert!(error.starts_with("expected zstd, or jpeg:QUALITY"), "{error}");
        assert!(error.ends_with(&format!("found '{words}'")), "{error}");
    }
}

#[test]
fn images_of_bytes_alone_become_jpeg() {
    let config = parsed(&[
        ["left", "u8", "chw", "bgr"],
        ["right", "f32", "chw", "rgb"],
        ["gray", "u8", "hwc", "mono"],
    ]);
    let (taken, kept) = Images::Jpeg(90).streams(&config).unwrap();
    assert_eq!(taken, ["left", "gray"]);
    assert_eq!(kept.len(), 1);
    assert!(kept[0].starts_with("the rows of right stay zstd"), "{kept:?}");
    assert!(kept[0].contains("expects images of u8, found images of f32"), "{kept:?}");
    let codecs: Vec<Codec> = config.streams.iter().map(|of| Images::Jpeg(90).codec(of)).collect();
    let Codec::Jpeg(left) = codecs[0] else { panic!("{codecs:?}") };
    assert_eq!((left.width, left.height, left.quality), (20, 10, 90));
    assert_eq!((codecs[1], codecs[3]), (Codec::Zstd, Codec::Zstd));
    assert!(config.streams.iter().all(|of| Images::Zstd.codec(of) == Codec::Zstd));
    assert_eq!(Images::Zstd.streams(&config).unwrap(), (Vec::new(), Vec::new()));
}

#[test]
fn it_is_an_error_if_no_stream_can_take_it() {
    let config = parsed(&[["right", "f32", "chw", "rgb"]]);
    let error = Images::Jpeg(95).streams(&config).unwrap_err();
    assert!(error.starts_with("--images jpeg:95: expected a stream of images with `dtype: u8`"));
    assert!(error.contains("right (images of f32), joints ("), "{error}");
}
