//! Code that the tests of the pipeline share.

pub(crate) mod fields;
pub(crate) mod golden;
pub(crate) mod jpeg;
pub(crate) mod jpeg_twin;
pub(crate) mod maps;

use std::sync::Arc;

use half::{bf16, f16};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::SegmentId;
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;

/// A pipeline on the CPU backend for a configuration that is known to be good.
pub(crate) fn pipeline(yaml: &str) -> Pipeline {
    let config = config::parse(yaml, "test.yaml").unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    Pipeline::new(config, Arc::new(backend)).unwrap()
}

/// A serialized `sensor_msgs/JointState` with positions only.
pub(crate) fn joint_state(stamp: Stamp, names: &[&str], position: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "base_link");
    writer.u32(names.len() as u32);
    names.iter().for_each(|name| writer.string(name));
    writer.f64_sequence(position);
    writer.f64_sequence(&[]);
    writer.f64_sequence(&[]);
    writer.finish()
}

/// A serialized `trajectory_msgs/JointTrajectory`: per point its time after the start \[ns\] and its
/// positions.
pub(crate) fn trajectory(stamp: Stamp, names: &[&str], points: &[(i64, Vec<f64>)]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "base_link");
    writer.u32(names.len() as u32);
    names.iter().for_each(|name| writer.string(name));
    writer.u32(points.len() as u32);
    for (time_ns, positions) in points {
        writer.f64_sequence(positions);
        (0..3).for_each(|_| writer.f64_sequence(&[]));
        let (sec, nanosec) = Stamp::from_nanos(*time_ns).to_sec_nanosec();
        writer.i32(sec);
        writer.u32(nanosec);
    }
    writer.finish()
}

/// The values of a segment, all history steps, whatever their type.
pub(crate) fn values(pipeline: &Pipeline, message: &TensorMessage, segment: SegmentId) -> Vec<f32> {
    let bytes = message.segment_data(segment);
    let halves = || bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b));
    match pipeline.layout().segment(segment).dtype {
        DType::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        DType::F16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        DType::Bf16 => halves().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        DType::U8 => bytes.iter().map(|byte| f32::from(*byte)).collect(),
        DType::I32 => {
            bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b) as f32).collect()
        }
    }
}
