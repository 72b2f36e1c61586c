//! Images that are undistorted: the key `undistort` of `image`, and the inputs of their cameras.

use super::check::Check;
use super::image::RawImage;
use super::mapping::mapping;
use super::raw::RawQos;
use crate::input::CAMERA_INFO;
use crate::spec::{InputSpec, Qos, Selection, StreamId};

/// Drivers say it with every image, and one is enough.
const DEPTH: i64 = 8;

mapping! { RawUndistort {
    camera_info: String,
    qos: RawQos,
} }

/// The topic of the camera of a stream.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CameraTopic {
    topic: String,
    qos: Qos,
}

/// Validates the key `undistort` of the image at `key`: the topic of its camera. `None` if it has none, or if
/// the key is wrong, which is reported. In `defaults` it is wrong, and if the image has a form that lacks it.
pub(super) fn undistort(
    check: &mut Check<'_>,
    key: &str,
    image: Option<&RawImage>,
) -> Option<CameraTopic> {
    let image = image.filter(|image| image.may_have("undistort"))?;
    let raw = image.undistort.as_ref()?;
    match check.is_inherited(&format!("{key}.undistort")) {
        true => None,
        false => camera(check, key, raw),
    }
}

fn camera(check: &mut Check<'_>, key: &str, raw: &RawUndistort) -> Option<CameraTopic> {
    let key = format!("{key}.undistort");
    let at = format!("{key}.camera_info");
    let topic = check
        .required(&at, raw.camera_info.clone(), "the topic of the camera's sensor_msgs/CameraInfo")
        .and_then(|topic| check.topic(&at, topic));
    let qos = raw.qos.unwrap_or_default();
    let depth =
        check.integer(&format!("{key}.qos.depth"), qos.depth.unwrap_or(DEPTH), 1, 10_000)?;
    let reliability = qos.reliability.unwrap_or_default();
    let durability = qos.durability.unwrap_or_default();
    Some(CameraTopic { topic: topic?, qos: Qos { reliability, durability, depth } })
}

/// The inputs of all cameras. Streams of the same topic and quality of service share one, which has the name
/// of the first.
pub(super) fn inputs(cameras: Vec<(StreamId, String, CameraTopic)>) -> Vec<InputSpec> {
    let mut shared: Vec<(CameraTopic, String, Vec<StreamId>)> = Vec::new();
    for (stream, name, camera) in cameras {
        match shared.iter_mut().find(|(known, _, _)| *known == camera) {
            Some((_, _, streams)) => streams.push(stream),
            None => shared.push((camera, name, vec![stream])),
        }
    }
    let input = |(CameraTopic { topic, qos }, name, streams)| {
        let selection = Selection::CameraInfo { streams };
        InputSpec::without_rows(format!("{name}.camera_info"), topic, CAMERA_INFO, selection, qos)
    };
    shared.into_iter().map(input).collect()
}
