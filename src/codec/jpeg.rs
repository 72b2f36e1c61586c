//! JPEG by mozjpeg's decoder, which is that of libjpeg-turbo.
//!
//! libjpeg ends an error with a jump out of its own functions. The crate does it by unwinding, which
//! is caught here; no panic is printed.

#![allow(unsafe_code)] // only the number of a warning is behind a pointer of C

use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mozjpeg::{ColorSpace, Decompress};
use mozjpeg_sys::{
    JWRN_ADOBE_XFORM, JWRN_BOGUS_ICC, JWRN_EXTRANEOUS_DATA, JWRN_HIT_MARKER, JWRN_JFIF_MAJOR,
    JWRN_JPEG_EOF, jpeg_common_struct, jpeg_error_mgr, msg_parm_union,
};

use super::{Decoded, check_size, malformed, unsupported};
use crate::ops::image::Encoding;
use crate::pipeline::Rejected;

/// Most scans of a file. Progressive files have about ten. Each costs as much as the whole image,
/// and a file of a megabyte could have a hundred thousand.
const MOST_SCANS: usize = 128;
/// Begins a scan. Inside of compressed data 0xFF is followed by 0, so this occurs nowhere else but
/// in a comment or a preview.
const SCAN: [u8; 2] = [0xFF, 0xDA];

/// Why libjpeg stopped: the number of its message.
struct Stopped(c_int);

/// See [`super::decode`].
pub(super) fn decode(
    file: &[u8],
    largest: [usize; 2],
    pixels: &mut Vec<u8>,
) -> Result<Decoded, Rejected> {
    let scans = file.windows(2).filter(|pair| *pair == SCAN).take(MOST_SCANS + 1).count();
    if scans > MOST_SCANS {
        return Err(malformed(format!("JPEG: expected at most {MOST_SCANS} scans, found more")));
    }
    catch_unwind(AssertUnwindSafe(|| try_decode(file, largest, pixels))).unwrap_or_else(|payload| {
        let code = payload.downcast_ref().map_or(0, |Stopped(code)| *code);
        let words = match code {
            JWRN_JPEG_EOF => "it ends early".to_owned(),
            JWRN_HIT_MARKER => "a part of it is missing".to_owned(),
            _ => format!("libjpeg's message {code}"),
        };
        Err(malformed(format!("JPEG: expected a whole file without damage, found {words}")))
    })
}

fn try_decode(file: &[u8], largest: [usize; 2], pixels: &mut Vec<u8>) -> Result<Decoded, Rejected> {
    let failed = |error: std::io::Error| malformed(format!("JPEG: {error}"));
    let jpeg = Decompress::builder().with_err(errors()).from_mem(file).map_err(failed)?;
    let (width, height) = jpeg.size();
    check_size([width, height], largest)?;
    let (encoding, mut started) = match jpeg.color_space() {
        ColorSpace::JCS_GRAYSCALE => (Encoding::Mono8, jpeg.grayscale().map_err(failed)?),
        ColorSpace::JCS_YCbCr | ColorSpace::JCS_RGB => {
            (Encoding::Rgb8, jpeg.rgb().map_err(failed)?)
        }
        _ => {
            let detail =
                "JPEG: expected gray or colours, found four channels (CMYK) or unknown ones";
            return Err(unsupported(detail.into()));
        }
    };
    pixels.resize(width * height * encoding.bytes_per_pixel(), 0);
    started.read_scanlines_into::<u8>(pixels).map_err(failed)?;
    started.finish().map_err(failed)?;
    Ok(Decoded { encoding, width, height })
}

/// libjpeg's way to report: every error unwinds, and so does a warning that pixels are wrong.
fn errors() -> jpeg_error_mgr {
    jpeg_error_mgr {
        error_exit: Some(stop),
        emit_message: Some(note),
        output_message: Some(ignore),
        format_message: None,
        reset_error_mgr: Some(ignore),
        msg_code: 0,
        msg_parm: msg_parm_union { _bindgen_data_: [0; 20] },
        trace_level: 0,
        num_warnings: 0,
        jpeg_message_table: std::ptr::null(),
        last_jpeg_message: 0,
        addon_message_table: std::ptr::null(),
        first_addon_message: 0,
        last_addon_message: 0,
    }
}

/// The number of libjpeg's last message.
fn code(of: &jpeg_common_struct) -> c_int {
    // SAFETY: libjpeg calls with the error manager in place, which lives as long as the decoder.
    unsafe { (*of.err).msg_code }
}

extern "C-unwind" fn stop(of: &mut jpeg_common_struct) {
    // Not a panic: nothing is printed.
    resume_unwind(Box::new(Stopped(code(of))));
}

/// A level below 0 is a warning: the pixels may be wrong. Those that are listed say nothing about
/// pixels. Cheap cameras send a few bytes too many between two parts.
extern "C-unwind" fn note(of: &mut jpeg_common_struct, level: c_int) {
    const HARMLESS: [c_int; 4] =
        [JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR, JWRN_ADOBE_XFORM, JWRN_BOGUS_ICC];
    if level < 0 && !HARMLESS.contains(&code(of)) {
        stop(of);
    }
}

extern "C-unwind" fn ignore(_: &mut jpeg_common_struct) {}
