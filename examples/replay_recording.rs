//! Runs the pipeline over recorded messages, without ROS and without a clock.
//!
//! ```text
//! replay_recording CONFIG RECORDING OUTPUT
//! ```
//!
//! RECORDING is a sequence of records, in order of arrival, little-endian:
//! `u8 kind`, then for a message (kind 0) `u32 stream`, `i64 receive stamp [ns]`, `u32 length` and
//! the serialized message; for a tick (kind 1) `i64 number`. OUTPUT receives, for every tick that
//! is not held back, `u32 length` and the serialized `FusedTensor`: byte for byte what a live node
//! publishes for the same messages.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use robocache::backend::cpu::CpuBackend;
use robocache::config;
use robocache::layout::Layout;
use robocache::pipeline::{Pipeline, PushError, TickOutcome};
use robocache::time::Stamp;

type Error = Box<dyn std::error::Error>;

fn read<const N: usize>(input: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn push(pipeline: &Pipeline, input: &mut impl Read) -> Result<(), Error> {
    let stream = u32::from_le_bytes(read(input)?) as usize;
    let receive = Stamp::from_nanos(i64::from_le_bytes(read(input)?));
    let mut message = vec![0; u32::from_le_bytes(read(input)?) as usize];
    input.read_exact(&mut message)?;
    if stream >= pipeline.config().streams.len() {
        return Err(format!("stream {stream} is not in the configuration").into());
    }
    match pipeline.push(stream, &message, receive) {
        Ok(_) | Err(PushError::Dropped(_)) => Ok(()), // drops are counted, as they are live
        Err(PushError::Backend(error)) => Err(error.into()),
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config, recording, output] = arguments.as_slice() else {
        return Err("usage: replay_recording CONFIG RECORDING OUTPUT".into());
    };
    let config = config::load(Path::new(config))?;
    let backend = CpuBackend::new(&config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, Arc::new(backend));
    let mut frame = pipeline.new_frame();
    let mut input = BufReader::new(File::open(recording)?);
    let mut output = BufWriter::new(File::create(output)?);
    let mut kind = [0];
    while input.read(&mut kind)? == 1 {
        match kind[0] {
            0 => push(&pipeline, &mut input)?,
            1 => {
                let tick = i64::from_le_bytes(read(&mut input)?);
                if pipeline.tick(tick, &mut frame)? == TickOutcome::Ready {
                    output.write_all(&(frame.message().len() as u32).to_le_bytes())?;
                    output.write_all(frame.message())?;
                }
            }
            other => return Err(format!("expected a record of kind 0 or 1, found {other}").into()),
        }
    }
    Ok(output.flush()?)
}
