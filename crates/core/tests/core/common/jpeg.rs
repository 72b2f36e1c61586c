//! Baseline JPEG files of random content, by libjpeg's encoder.
#![allow(unsafe_code)] // libjpeg's own functions: the crate's safe encoder writes no restarts

use std::ffi::c_int;
use std::mem::MaybeUninit;

use mozjpeg_sys::*;

use crate::backends::random::Random;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JpegFile {
    pub size: [usize; 2],
    pub gray: bool,
    /// Samples of luma per sample of chroma.
    pub sampling: [usize; 2],
    pub quality: usize,
    pub optimized: bool,
    /// Units between restarts; 0 for none.
    pub restarts: usize,
    pub content: Content,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Noise,
    /// Only 0 and 255, which make the largest coefficients.
    BlackAndWhite,
    Waves,
    Flat,
}

impl JpegFile {
    pub(crate) fn random(random: &mut Random, most: usize) -> Self {
        use Content::*;
        let side = |random: &mut Random| match random.one_in(4) {
            true => random.range(1, 20),
            false => random.range(1, most),
        };
        JpegFile {
            size: [side(random), side(random)],
            gray: random.one_in(6),
            sampling: random.choose(&[[1, 1], [2, 1], [2, 2], [2, 2], [1, 2]]),
            quality: random.choose(&[1, 5, 30, 50, 75, 85, 95, 100]),
            optimized: random.one_in(3),
            restarts: random.choose(&[0, 0, 1, 2, 7, 30]),
            content: random.choose(&[Noise, BlackAndWhite, Waves, Waves, Flat]),
        }
    }

    pub(crate) fn write(&self, random: &mut Random) -> Vec<u8> {
        let [width, height] = self.size;
        let channels = if self.gray { 1 } else { 3 };
        let fx = random.float(0.01, 0.6);
        let fy = random.float(0.01, 0.6);
        let flat = random.bits() as u8;
        let pixels = (0..width * height * channels).map(|at| {
            let x = at / channels % width;
            let y = at / channels / width;
            let phase = x as f32 * fx + y as f32 * fy + (at % channels) as f32;
            match self.content {
                Content::Noise => random.bits() as u8,
                Content::BlackAndWhite => random.choose(&[0, 255]),
                Content::Waves => (127.0 + 120.0 * phase.sin()) as u8 ^ (random.bits() & 3) as u8,
                Content::Flat => flat,
            }
        });
        self.compress(&pixels.collect::<Vec<u8>>(), channels)
    }

    fn compress(&self, pixels: &[u8], channels: usize) -> Vec<u8> {
        let [width, height] = self.size;
        let mut file = std::ptr::null_mut();
        let mut len = 0;
        // SAFETY: the calls are in libjpeg's order, on structures that stay where they are. The lines have the length that
        // the structure declares. The memory of the file is libjpeg's, of `len` bytes, until it is freed.
        unsafe {
            let mut errors = MaybeUninit::zeroed();
            let mut jpeg = MaybeUninit::<jpeg_compress_struct>::zeroed();
            let jpeg = jpeg.as_mut_ptr();
            (*jpeg).common.err = jpeg_std_error(&mut *errors.as_mut_ptr());
            jpeg_CreateCompress(jpeg, JPEG_LIB_VERSION, size_of::<jpeg_compress_struct>());
            let jpeg = &mut *jpeg;
            jpeg_mem_dest(jpeg, &mut file, &mut len);
            (jpeg.image_width, jpeg.image_height) = (width as u32, height as u32);
            jpeg.input_components = channels as c_int;
            jpeg.in_color_space = if self.gray { JCS_GRAYSCALE } else { JCS_RGB };
            jpeg_c_set_int_param(jpeg, JINT_COMPRESS_PROFILE, JCP_FASTEST as c_int);
            jpeg_set_defaults(jpeg);
            jpeg_set_quality(jpeg, self.quality as c_int, 1);
            jpeg.optimize_coding = c_int::from(self.optimized);
            jpeg.restart_interval = self.restarts as u32;
            let luma = &mut *jpeg.comp_info;
            [luma.h_samp_factor, luma.v_samp_factor] =
                self.sampling.map(|samples| samples as c_int);
            jpeg_start_compress(jpeg, 1);
            for line in pixels.chunks(width * channels) {
                jpeg_write_scanlines(jpeg, &line.as_ptr(), 1);
            }
            jpeg_finish_compress(jpeg);
            jpeg_destroy_compress(jpeg);
            let bytes = std::slice::from_raw_parts(file, len as usize).to_vec();
            nix::libc::free(file.cast());
            bytes
        }
    }
}
