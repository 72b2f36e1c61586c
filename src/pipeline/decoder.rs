//! From the bytes of a message to what a backend encodes.

use crate::backend::Sample;
use crate::config::{CloudSpec, Source, StreamSpec};
use crate::decode::cloud::FieldAt;
use crate::decode::vector::VectorDecoder;
use crate::decode::{self, DecodeError, Header};

/// Decodes the messages of one stream, with the memory that it reuses from message to message.
pub(super) enum Decoder {
    Vector { decoder: VectorDecoder, row: Vec<f32> },
    Image,
    Cloud { spec: CloudSpec, fields: Vec<FieldAt> },
}

impl Decoder {
    /// For a stream of this specification.
    pub fn new(spec: &StreamSpec) -> Self {
        match &spec.source {
            Source::Vector(vector) => Decoder::Vector {
                decoder: VectorDecoder::new(vector, spec.dtype),
                row: vec![0.0; vector.dim()],
            },
            Source::Image(_) => Decoder::Image,
            Source::Cloud(cloud) => Decoder::Cloud { spec: cloud.clone(), fields: Vec::new() },
        }
    }

    /// A serialized message as a sample for the backend.
    pub fn decode<'a>(
        &'a mut self,
        message: &'a [u8],
    ) -> Result<(Header<'a>, Sample<'a>), DecodeError> {
        match self {
            Decoder::Vector { decoder, row } => {
                let header = decoder.decode(message, row)?;
                Ok((header, Sample::Vector(row)))
            }
            Decoder::Image => {
                let (header, view) = decode::image::decode(message)?;
                Ok((header, Sample::Image(view)))
            }
            Decoder::Cloud { spec, fields } => {
                let (header, view) = decode::cloud::decode(message, spec, fields)?;
                Ok((header, Sample::Cloud(view)))
            }
        }
    }
}
