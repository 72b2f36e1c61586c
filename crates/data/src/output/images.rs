//! How rows of images are stored: as they are, or as JPEG.

use std::fmt;
use std::str::FromStr;

use crate::store::Codec;
use robocache_core::codec::JpegRow;
use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::SampleKind;
use robocache_core::spec::{Config, StreamSpec};
use robocache_ops::dtype::DType;

/// How rows of images are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Images {
    /// As all rows, without loss.
    #[default]
    Zstd,
    /// Images of bytes as JPEG of this quality, 1 to 100.
    Jpeg(u8),
}

impl FromStr for Images {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let quality = |text: &str| text.parse().ok().filter(|quality| (1..=100).contains(quality));
        match (text, text.strip_prefix("jpeg:").and_then(quality)) {
            ("zstd", _) => Ok(Images::Zstd),
            (_, Some(quality)) => Ok(Images::Jpeg(quality)),
            _ => Err(format!(
                "expected zstd, or jpeg:QUALITY from jpeg:1 to jpeg:100, found '{text}'"
            )),
        }
    }
}

impl fmt::Display for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Images::Zstd => f.write_str("zstd"),
            Images::Jpeg(quality) => write!(f, "jpeg:{quality}"),
        }
    }
}

impl Images {
    /// How the rows of a stream are compressed.
    pub(crate) fn codec(self, stream: &StreamSpec) -> Codec {
        match (self, &stream.encoder) {
            (Images::Jpeg(quality), EncoderSpec::Image(image)) => {
                JpegRow::of(image, stream.dtype, quality).map_or(Codec::Zstd, Codec::Jpeg)
            }
            _ => Codec::Zstd,
        }
    }

    /// The names of the streams whose rows become JPEG, and a sentence for each other stream with large pictures.
    ///
    /// # Errors
    /// JPEG is asked for, and no stream can take it.
    pub(crate) fn streams(self, config: &Config) -> Result<(Vec<String>, Vec<String>), String> {
        if self == Images::Zstd {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut taken = Vec::new();
        let mut kept = Vec::new();
        let mut others = Vec::new();
        for stream in &config.streams {
            let found = format!("{} of {}", stream.encoder.plural(), stream.dtype.name());
            let name = &stream.name;
            if self.codec(stream) != Codec::Zstd {
                taken.push(name.clone());
                continue;
            }
            if matches!(stream.encoder.takes(), SampleKind::Image | SampleKind::Depth) {
                let why = match stream.dtype {
                    DType::U8 => "",
                    _ => "; with `dtype: u8` the policy normalises",
                };
                kept.push(format!(
                    "the rows of {name} stay zstd: --images {self} expects images of u8, found {found}{why}"
                ));
            }
            others.push(format!("{name} ({found})"));
        }
        match taken.is_empty() {
            false => Ok((taken, kept)),
            true => Err(format!(
                "--images {self}: expected a stream of images with `dtype: u8`, found {}",
                others.join(", ")
            )),
        }
    }
}

#[cfg(test)]
mod tests;
