//! JPEG and PNG files.

use robocache_core::codec;
use robocache_core::codec::ScanReader;
use robocache_core::sample::CompressedImage;

const LARGEST: [usize; 2] = [64, 64];

pub(crate) fn run(file: &[u8]) {
    let mut pixels = Vec::new();
    if let Ok(view) = codec::decode(file, LARGEST, &mut pixels) {
        let line = view.width * view.encoding.bytes_per_pixel();
        assert!(view.width <= LARGEST[0] && view.height <= LARGEST[1] && view.step == line);
        assert_eq!(view.data.len(), view.height * line);
        // Inputs ask for the size before anybody decodes.
        assert_eq!(codec::size(file), Ok([view.width, view.height]));
    }
    assert!(pixels.capacity() <= 4 * LARGEST[0] * LARGEST[1]);
    // Whoever reads the headers for a GPU finds the size that the codec finds.
    if let Some(read) = ScanReader::default().read(file, LARGEST) {
        assert_eq!(codec::size(file), Ok([read.width, read.height]));
        assert!(read.bytes.len() < file.len() + 64 && read.pieces() <= file.len());
    }
    let Ok(size) = codec::size(file) else { return };
    if size.iter().zip(&LARGEST).any(|(side, most)| side > most) {
        return;
    }
    let mut gray = Vec::new();
    let image = CompressedImage { file, size, is_swapped: false, is_mono16: true, scan: None };
    if let Ok(view) = codec::decode_compressed(&image, &mut gray) {
        assert_eq!([view.width, view.height], size);
    }
    assert!(gray.capacity() <= LARGEST[0] * LARGEST[1]);
}
