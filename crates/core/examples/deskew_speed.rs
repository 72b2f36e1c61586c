//! Time to take in a cloud of 131,072 points on one core, as it is and deskewed with tf:
//! `cargo run --release --example deskew_speed`

use std::sync::Arc;
use std::time::Instant;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::InputId;
use robocache_ops::time::Stamp;

const RINGS: usize = 128;
const COLUMNS: usize = 1024;
const STAMP: i64 = 1_700_000_000_000_000_000;
/// Bytes of a point: x, y, z, intensity and t.
const STEP: usize = 20;

fn main() {
    println!("{} points; ms per cloud: p10, p50 over 200 clouds", RINGS * COLUMNS);
    // Rows of the message are rings, as Ouster sends them, or columns, as other spinning lidars do.
    for (order, by_rings) in [("rings", true), ("columns", false)] {
        let cloud = cloud(by_rings);
        for channels in ["[{reduce: count}]", "[{reduce: count}, {reduce: mean, field: intensity}]"]
        {
            let deskew = "deskew: {fixed_frame: odom, sensor: ouster}";
            let pipelines = ["", deskew].map(|keys| pipeline(keys, channels));
            let mut times = [Vec::new(), Vec::new()];
            // In turns, so that both meet the same moments of the machine.
            for round in 0..220 {
                for (pipeline, times) in pipelines.iter().zip(&mut times) {
                    let start = Instant::now();
                    pipeline.push(InputId::new(0), &cloud, arrival()).expect("it is taken");
                    if round >= 20 {
                        times.push(start.elapsed().as_secs_f64() * 1e3);
                    }
                }
            }
            let [plain, deskewed] = times.map(|mut times| {
                times.sort_by(f64::total_cmp);
                [times[20], times[100]]
            });
            println!(
                "{order:8} {channels:58} plain {:6.3} {:6.3}   deskewed {:6.3} {:6.3}   {:.2} times",
                plain[0],
                plain[1],
                deskewed[0],
                deskewed[1],
                deskewed[0] / plain[0]
            );
        }
    }
}

fn arrival() -> Arrival {
    Arrival { stamp: Some(Stamp::from_nanos(STAMP + 200_000_000)), ..Arrival::default() }
}

/// A pipeline with a tree of frames: odom, base_link at 200 Hz, lidar.
fn pipeline(keys: &str, channels: &str) -> Pipeline {
    let text = format!(
        "
rate_hz: 100
streams:
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 1000
    t_base_sensor: tf
    {keys}
    cloud: {{origin_m: [-32, -32, -4], size_m: 0.5, shape: [128, 128, 64], channels: {channels}}}
"
    );
    let config = config::parse(&text, "deskew_speed").unwrap_or_else(|error| panic!("{error}"));
    let backend = CpuBackend::new(&config, &Layout::new(&config)).expect("memory");
    let pipeline = Pipeline::new(config, Arc::new(backend)).expect("a configuration");
    let place = |parent: &str, child: &str, offset_ms: i64| {
        let mut writer = Writer::new();
        writer.u32(1);
        writer.header(Stamp::from_nanos(STAMP + offset_ms * 1_000_000), parent);
        writer.string(child);
        let angle = 0.001 * offset_ms as f64;
        writer.f64_array(&[0.002 * offset_ms as f64, 0.0, 0.5]);
        writer.f64_array(&[0.0, 0.0, angle.sin(), angle.cos()]);
        writer.finish()
    };
    let push = |input, message: Vec<u8>| {
        pipeline.push(InputId::new(input), &message, arrival()).expect("a transform");
    };
    for k in -10..40 {
        push(1, place("odom", "base_link", 5 * k));
    }
    push(2, place("base_link", "lidar", 0));
    pipeline
}

/// A sweep of 100 ms around the sensor: a floor, and walls at 5 to 40 m.
fn cloud(by_rings: bool) -> Vec<u8> {
    let point = |ring: usize, column: usize| {
        let azimuth = column as f32 / COLUMNS as f32 * std::f32::consts::TAU;
        let elevation = (ring as f32 / RINGS as f32 - 0.7) * 0.8;
        let range = (5.0 + 35.0 * (3.0 * azimuth).sin().abs()).min(1.8 / (-elevation).max(0.02));
        let flat = range * elevation.cos();
        let place = [flat * azimuth.cos(), flat * azimuth.sin(), range * elevation.sin()];
        let time = (column as u64 * 100_000_000 / COLUMNS as u64) as u32;
        let mut bytes = Vec::with_capacity(STEP);
        place.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes.extend((ring as f32).to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes
    };
    let mut data = Vec::with_capacity(RINGS * COLUMNS * STEP);
    for at in 0..RINGS * COLUMNS {
        data.extend(match by_rings {
            true => point(at / COLUMNS, at % COLUMNS),
            false => point(at % RINGS, at / RINGS),
        });
    }
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(STAMP), "lidar");
    writer.u32(1);
    writer.u32((RINGS * COLUMNS) as u32);
    let fields = [("x", 7), ("y", 7), ("z", 7), ("intensity", 7), ("t", 6)];
    writer.u32(fields.len() as u32);
    for (i, (name, datatype)) in fields.into_iter().enumerate() {
        writer.string(name);
        writer.u32(4 * i as u32);
        writer.u8(datatype);
        writer.u32(1);
    }
    writer.u8(0);
    writer.u32(STEP as u32);
    writer.u32(data.len() as u32);
    writer.bytes(&data);
    writer.u8(1);
    writer.finish()
}
