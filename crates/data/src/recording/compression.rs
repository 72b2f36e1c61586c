//! The compression of chunks.

use std::str::FromStr;

use robocache_core::spec::{Config, InputSpec};

/// The compression of the chunks of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkCompression {
    /// Messages are written as they are.
    #[default]
    None,
    /// Zstandard, on threads of ordinary priority.
    Zstd,
}

impl FromStr for ChunkCompression {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "none" => Ok(ChunkCompression::None),
            "zstd" => Ok(ChunkCompression::Zstd),
            _ => Err(()),
        }
    }
}

impl ChunkCompression {
    /// True if it makes what is recorded of these inputs smaller. If all images and clouds are compressed already, most bytes
    /// are theirs, and zstd would only cost time.
    pub(super) fn is_worthwhile(self, config: &Config, recorded: &[bool]) -> bool {
        let inputs = config.inputs.iter().zip(recorded).filter(|(_, recorded)| **recorded);
        let large: Vec<&InputSpec> = inputs.map(|(of, _)| of).filter(|of| of.is_large()).collect();
        let is_plain = |input: &&InputSpec| !is_compressed(input);
        self == ChunkCompression::Zstd && (large.is_empty() || large.iter().any(is_plain))
    }
}

/// True if the messages of an input are compressed: JPEG, PNG, video, clouds by point_cloud_transport.
fn is_compressed(input: &InputSpec) -> bool {
    input.ros_type.contains("Compressed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use robocache_core::config;

    fn is_worthwhile(types: &[&str]) -> bool {
        let stream = |(at, ros_type): (usize, &&str)| {
            let image = "image: {resize: {width: 8, height: 8}}";
            let of = match ros_type.contains("Image") {
                true => format!("strategy: hold, {image}"),
                false => "strategy: hold".to_owned(),
            };
            format!("  s{at}: {{type: {ros_type}, topic: /t{at}, max_age_ms: 50, {of}}}\n")
        };
        let streams: String = types.iter().enumerate().map(stream).collect();
        let config = config::parse(&format!("rate_hz: 50\nstreams:\n{streams}"), "a.yaml").unwrap();
        let recorded = vec![true; config.inputs.len()];
        assert!(!ChunkCompression::None.is_worthwhile(&config, &recorded));
        ChunkCompression::Zstd.is_worthwhile(&config, &recorded)
    }

    #[test]
    fn images_that_are_compressed_already_stay_as_they_are() {
        let [wrench, image, jpeg] =
            ["geometry_msgs/WrenchStamped", "sensor_msgs/Image", "sensor_msgs/CompressedImage"];
        assert!(is_worthwhile(&[wrench]) && is_worthwhile(&[image, jpeg]));
        assert!(!is_worthwhile(&[jpeg]) && !is_worthwhile(&[wrench, jpeg, jpeg]));
    }
}
