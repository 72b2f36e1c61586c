//! JPEG by mozjpeg's decoder, which is that of libjpeg-turbo. Its encoder is in [`super::jpeg_row`].
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

use super::{Decoded, check_size, jpeg_parts, malformed, unsupported};
use crate::rejected::Rejected;
use robocache_ops::image::Encoding;

/// Cheap cameras send a few bytes too many between two parts. More than these are a part that was not
/// understood.
const MOST_EXTRA: u32 = 16;

/// Why libjpeg stopped: the number of its message.
pub(super) struct Stopped(pub(super) c_int);

/// See [`super::decode`].
pub(super) fn decode(
    file: &[u8],
    largest: [usize; 2],
    pixels: &mut Vec<u8>,
) -> Result<Decoded, Rejected> {
    jpeg_parts::check(file).map_err(|problem| malformed(format!("JPEG: {problem}")))?;
    catch_unwind(AssertUnwindSafe(|| try_decode(file, largest, pixels))).unwrap_or_else(|payload| {
        let words = match payload.downcast_ref() {
            Some(Stopped(JWRN_JPEG_EOF)) => "it ends early".to_owned(),
            Some(Stopped(JWRN_HIT_MARKER)) => "a part of it is missing".to_owned(),
            Some(Stopped(JWRN_EXTRANEOUS_DATA)) => "bytes that are no part of it".to_owned(),
            Some(Stopped(code)) => format!("libjpeg's message {code}"),
            None => "a failure of the decoder".to_owned(),
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
pub(super) fn errors() -> jpeg_error_mgr {
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

/// The number of libjpeg's last message, and the first number in it.
fn message(of: &jpeg_common_struct) -> (c_int, u32) {
    // SAFETY: libjpeg calls with the error manager in place, which lives as long as the decoder.
    let manager = unsafe { &*of.err };
    (manager.msg_code, manager.msg_parm._bindgen_data_[0])
}

extern "C-unwind" fn stop(of: &mut jpeg_common_struct) {
    // Not a panic: nothing is printed.
    resume_unwind(Box::new(Stopped(message(of).0)));
}

/// A level below 0 is a warning: the pixels may be wrong. Those that are listed say nothing about
/// pixels.
extern "C-unwind" fn note(of: &mut jpeg_common_struct, level: c_int) {
    let harmless = match message(of) {
        (JWRN_EXTRANEOUS_DATA, bytes) => bytes <= MOST_EXTRA,
        (code, _) => matches!(code, JWRN_JFIF_MAJOR | JWRN_ADOBE_XFORM | JWRN_BOGUS_ICC),
    };
    if level < 0 && !harmless {
        stop(of);
    }
}

extern "C-unwind" fn ignore(_: &mut jpeg_common_struct) {}
