//! Times of a JPEG file on its way to a row, on one core: `benches/jpeg.py` compares them with OpenCV's.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::codec;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::InputId;
use robocache_ops::time::Stamp;

/// The row of most policies, normalised as for ImageNet.
const CONFIG: &str = "
rate_hz: 30
streams:
  camera:
    type: sensor_msgs/CompressedImage
    topic: /camera
    max_age_ms: 100
    dtype: f32
    image:
      resize: {width: 224, height: 224, fit: stretch, filter: FILTER}
      mean: [0.485, 0.456, 0.406]
      std: [0.229, 0.224, 0.225]
";

/// Time a JPEG file on its way to a row of 224x224, on one core.
///
/// Prints the medians in microseconds as JSON: of the whole message, and of the decoder alone.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The JPEG file
    file: PathBuf,
    /// How it is resized, as in the configuration
    #[arg(long, default_value = "pil_bilinear")]
    filter: String,
    /// Times taken
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let file = std::fs::read(&options.file)?;
    let config = config::parse(&CONFIG.replace("FILTER", &options.filter), "jpeg.rs")?;
    let largest = config.streams[0].bounds.image_px();
    let backend = CpuBackend::new(&config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, Arc::new(backend))?;
    let mut pixels = Vec::new();
    let (mut whole, mut decode) = (Vec::new(), Vec::new());
    for number in 0..options.repeats {
        let message = message(i64::from(number) + 1, &file);
        let start = Instant::now();
        pipeline.push(InputId::new(0), &message, Arrival::default())?;
        whole.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        codec::decode(&file, largest, &mut pixels)?;
        decode.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let (whole, decode) = (median(whole), median(decode));
    writeln!(std::io::stdout(), "{}", serde_json::json!({"row_us": whole, "decode_us": decode}))?;
    Ok(())
}

/// `sensor_msgs/msg/CompressedImage`
fn message(ns: i64, file: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(ns), "camera");
    writer.string("rgb8; jpeg compressed bgr8");
    writer.bytes(file);
    writer.finish()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
