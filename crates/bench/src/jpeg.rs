//! Times of a JPEG file on its way to a row: `benches/jpeg.py` compares them with OpenCV's, and
//! `benches/peers/nvjpeg.py` with nvJPEG's.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};
use robocache_core::backend::{self, Choice};
use robocache_core::cdr::Writer;
use robocache_core::codec::{self, ScanReader};
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::InputId;
use robocache_ops::time::{Epoch, Stamp};

/// The row of most policies, normalised as for ImageNet.
const CONFIG: &str = "
rate_hz: 100
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

/// The period of a tick, and of the images \[ns\].
const PERIOD_NS: i64 = 10_000_000;
/// Distance of the bytes that a walk through memory writes to \[bytes\].
const CACHE_LINE: usize = 64;
/// Images before the processor time is measured. From these `auto` chooses a processor.
const WARM_UP: u32 = 50;

/// Time a JPEG file on its way to a row of 224x224.
///
/// Prints microseconds as JSON. Medians: of the whole message (under `cuda` a part of it is then still under way), the
/// same with a tick that waits for the row, of the decoder alone, and of reading the headers alone. And the mean
/// processor time of all threads: of the message, and of the message with its tick.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The JPEG file
    file: PathBuf,
    /// How it is resized, as in the configuration
    #[arg(long, default_value = "pil_bilinear")]
    filter: String,
    /// auto, cpu or cuda
    #[arg(long, default_value = "cpu")]
    backend: Choice,
    /// Times taken
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Time from one image to the next [ms]; 0: as soon as possible. A camera lets the core rest in between, and then an
    /// image takes longer
    #[arg(long, default_value_t = 0)]
    period_ms: u64,
    /// Spin until an image is due, so that the core does not rest
    #[arg(long)]
    spin: bool,
    /// Write to this much memory before each image, so that the caches are cold [MB]
    #[arg(long, default_value_t = 0)]
    walk_mb: usize,
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
    let backend = backend::create(options.backend, 0, &config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, backend)?;
    let mut fused = pipeline.new_message();
    let mut pace = Pace::new(options);
    let mut row = Vec::new();
    let mut ready = Vec::new();
    let mut processor = [Duration::ZERO; 2];
    for number in 0..WARM_UP + options.repeats {
        if number == WARM_UP {
            (row, ready) = (Vec::new(), Vec::new());
            processor = Default::default();
        }
        let tick = i64::from(number) + 1;
        let message = message(tick * PERIOD_NS, &file);
        pace.wait();
        let busy = processor_time()?;
        let start = Instant::now();
        pipeline.push(InputId::new(0), &message, Arrival::default())?;
        row.push(start.elapsed().as_secs_f64() * 1e6);
        processor[0] += processor_time()?.saturating_sub(busy);
        pipeline.tick(tick, Epoch::default(), &mut fused)?;
        ready.push(start.elapsed().as_secs_f64() * 1e6);
        processor[1] += processor_time()?.saturating_sub(busy);
    }
    let mut pixels = Vec::new();
    let mut reader = ScanReader::default();
    let mut decode = Vec::new();
    let mut headers = Vec::new();
    for _ in 0..options.repeats {
        pace.wait();
        let start = Instant::now();
        codec::decode(&file, largest, &mut pixels)?;
        decode.push(start.elapsed().as_secs_f64() * 1e6);
        pace.wait();
        let start = Instant::now();
        if reader.read(&file, largest).is_some() {
            headers.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    let [row_processor_us, processor_us] =
        processor.map(|time| time.as_secs_f64() * 1e6 / f64::from(options.repeats));
    let found = serde_json::json!({
        "row_us": median(row),
        "ready_us": median(ready),
        "row_processor_us": row_processor_us,
        "processor_us": processor_us,
        "decode_us": median(decode),
        "headers_us": median(headers),
    });
    writeln!(std::io::stdout(), "{found}")?;
    Ok(())
}

/// The rhythm of the images.
struct Pace {
    due: Instant,
    period: Duration,
    spins: bool,
    /// Memory that is written to before each image, so that the caches are cold.
    walk: Vec<u8>,
}

impl Pace {
    fn new(options: &Options) -> Self {
        let period = Duration::from_millis(options.period_ms);
        let walk = vec![0; options.walk_mb * 1_000_000];
        Pace { due: Instant::now(), period, spins: options.spin, walk }
    }

    /// Waits until the next image is due.
    fn wait(&mut self) {
        self.walk.iter_mut().step_by(CACHE_LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        std::hint::black_box(&self.walk);
        while self.spins && Instant::now() < self.due {
            std::hint::spin_loop();
        }
        std::thread::sleep(self.due.saturating_duration_since(Instant::now()));
        self.due = Instant::now() + self.period;
    }
}

/// Processor time of all threads of this process so far.
fn processor_time() -> Result<Duration, Errno> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

/// `sensor_msgs/msg/CompressedImage`
fn message(ns: i64, file: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(ns), "camera");
    writer.string("rgb8; jpeg compressed bgr8");
    writer.bytes(file);
    writer.finish()
}

/// `None` of nothing.
fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
