//! tmp
use crate::config::ImageSpec;
use crate::decode::image::ImageView;
use crate::dtype::DType;
/// tmp
pub struct ImageEncoder;
impl ImageEncoder {
    /// t
    pub fn new(_: &ImageSpec, _: DType) -> Self {
        Self
    }
    /// t
    pub fn encode(&mut self, _: &ImageView<'_>, _: &mut [u8]) {}
}
