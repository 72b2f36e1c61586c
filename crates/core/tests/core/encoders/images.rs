//! Images: their keys in a contract.

use robocache_core::contract::DifferenceKind;

use super::Keys;

/// Images with all keys that they may have.
const IMAGES: &str = "
rate_hz: 30
timeline: header
defaults:
  image: {max_age_ms: 100}
streams:
  front:
    type: sensor_msgs/msg/Image
    topic: /front
    image:
      undistort: {camera_info: /front/info, qos: {depth: 7}}
      crop: {x: 10, y: 20, width: 300, height: 200}
      resize:
        - {width: 128, height: 96, filter: pil_bilinear, fit: pad_center, crop_fraction: 0.9}
        - {width: 64, height: 48, filter: cv2_area, fit: stretch}
      layout: chw
      color: rgb
      mean: [0.485, 0.456, 0.406]
      std: [0.229, 0.224, 0.225]
      pad_value: 3
      max_width_px: 1000
      max_height_px: 900
      encoding_8uc: rgb8
  side:
    type: sensor_msgs/msg/Image
    topic: /side
    image: {resize: {width: 32, height: 32}, range: [-1, 1]}
  preset:
    type: sensor_msgs/msg/CompressedImage
    topic: /preset
    image: {preset: pi0}
";

pub(super) const KEYS: &[Keys] = &[Keys {
    config: IMAGES,
    refused: &[
        ("timeline", "timeline: header", "timeline: receive"),
        ("streams.image", "image: {preset: pi0}", "image: {preset: smolvla}"),
        ("streams.image.preset", "preset: pi0", "preset: pi0_lerobot"),
        (
            "streams.image.undistort",
            "      undistort: {camera_info: /front/info, qos: {depth: 7}}\n",
            "",
        ),
        ("streams.image.crop", "      crop: {x: 10, y: 20, width: 300, height: 200}\n", ""),
        ("streams.image.crop.x", "x: 10", "x: 11"),
        ("streams.image.crop.y", "y: 20", "y: 21"),
        ("streams.image.crop.width", "width: 300", "width: 301"),
        ("streams.image.crop.height", "height: 200", "height: 201"),
        (
            "streams.image.resize",
            "        - {width: 128, height: 96, filter: pil_bilinear, fit: pad_center, crop_fraction: 0.9}\n",
            "",
        ),
        ("streams.image.resize.width", "width: 64", "width: 65"),
        ("streams.image.resize.height", "height: 96", "height: 95"),
        ("streams.image.resize.filter", "cv2_area", "cv2_linear"),
        ("streams.image.resize.fit", "fit: stretch", "fit: crop_center"),
        ("streams.image.resize.crop_fraction", "crop_fraction: 0.9", "crop_fraction: 0.8"),
        ("streams.image.layout", "layout: chw", "layout: hwc"),
        ("streams.image.color", "color: rgb", "color: bgr"),
        ("streams.image.range", "[-1, 1]", "[0, 1]"),
        ("streams.image.mean", "0.485", "0.486"),
        ("streams.image.std", "0.225", "0.226"),
        ("streams.image.pad_value", "pad_value: 3", "pad_value: 4"),
        ("streams.image.encoding_8uc", "encoding_8uc: rgb8", "encoding_8uc: bgr8"),
    ],
    said: &[
        (DifferenceKind::Validity, &[("defaults", "max_age_ms: 100", "max_age_ms: 101")]),
        (DifferenceKind::Transport, &[("streams.type", "CompressedImage", "Image")]),
    ],
    accepted: &[
        ("streams.image.undistort.camera_info", "/front/info", "/front/camera_info"),
        ("streams.image.undistort.qos", "depth: 7", "depth: 8"),
        ("streams.image.max_width_px", "max_width_px: 1000", "max_width_px: 1001"),
        ("streams.image.max_height_px", "max_height_px: 900", "max_height_px: 901"),
    ],
    limits: &["streams.max_width_px", "streams.max_height_px"],
}];
