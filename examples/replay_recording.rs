//! Runs the pipeline over recorded messages, without ROS and without a clock.
//!
//! ```text
//! replay_recording [--backend auto|cpu|cuda] [--device NUMBER] [--no-digest] CONFIG RECORDING OUTPUT
//! ```
//!
//! The backend is chosen as the node chooses it. If the program is built without the feature
//! `cuda`, `auto` is the CPU. The backend's name goes to standard error.
//!
//! RECORDING is a sequence of records, in order of arrival, little-endian. Each begins with
//! `u8 kind`:
//!
//! - A message (kind 0) goes on with `u32 input` (its number in the configuration), the
//!   receive stamp `i64 [ns]`, `u32 length` and the serialized message.
//! - A tick (kind 1) goes on with `i64 number`.
//!
//! For every tick that is not held back, OUTPUT receives `u32 length` and the serialized
//! `FusedTensor`. It is byte for byte what a live node publishes for the same messages.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use clap::Parser;
use robocache::backend::{self, Choice};
use robocache::config;
use robocache::layout::Layout;
use robocache::pipeline::{Arrival, Pipeline, PushError, TickOutcome};
use robocache::spec::InputId;
use robocache::time::{Epoch, Stamp};

type Error = Box<dyn std::error::Error>;

/// Runs the pipeline over recorded messages, without ROS and without a clock.
#[derive(Parser)]
struct Options {
    /// Where to compute: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Number of the GPU
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Leave the digests out, as a node with `digest: false` does
    #[arg(long)]
    no_digest: bool,
    /// The configuration that the node ran with
    config: PathBuf,
    /// Messages and ticks in order of arrival
    recording: PathBuf,
    /// File for the tensors
    output: PathBuf,
}

fn read<const N: usize>(input: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn push(pipeline: &Pipeline, epoch: Epoch, input: &mut impl Read) -> Result<(), Error> {
    let number = u32::from_le_bytes(read(input)?) as usize;
    let stamp = Stamp::from_nanos(i64::from_le_bytes(read(input)?));
    let mut message = vec![0; u32::from_le_bytes(read(input)?) as usize];
    input.read_exact(&mut message)?;
    if number >= pipeline.config().inputs.len() {
        return Err(format!("input {number} is not in the configuration").into());
    }
    let arrival = Arrival { stamp: Some(stamp), epoch, ..Arrival::default() };
    match pipeline.push(InputId::new(number), &message, arrival) {
        Ok(_) | Err(PushError::Dropped(_)) => Ok(()), // drops are counted, as in a live node
        Err(PushError::Backend(error)) => Err(error.into()),
    }
}

fn main() -> Result<(), Error> {
    let options = Options::parse();
    let config = config::load(&options.config)?;
    let backend = backend::create(options.backend, options.device, &config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, backend)?;
    eprintln!("replaying on the {} backend", pipeline.backend_name());
    let mut frame = pipeline.new_message();
    let mut input = BufReader::new(File::open(options.recording)?);
    let mut output = BufWriter::new(File::create(options.output)?);
    let mut kind = [0];
    let (mut epoch, mut last) = (Epoch::default(), i64::MIN);
    while input.read(&mut kind)? == 1 {
        match kind[0] {
            0 => push(&pipeline, epoch, &mut input)?,
            1 => {
                let tick = i64::from_le_bytes(read(&mut input)?);
                // If the clock jumped back, an epoch begins, as in a live node.
                if tick < last {
                    epoch = epoch.next(Some(pipeline.config().grid.stamp_of(last)));
                }
                last = tick;
                if pipeline.tick(tick, epoch, &mut frame)? == TickOutcome::Ready {
                    if !options.no_digest {
                        frame.seal();
                    }
                    output.write_all(&(frame.message().len() as u32).to_le_bytes())?;
                    output.write_all(frame.message())?;
                }
            }
            other => return Err(format!("expected a record of kind 0 or 1, found {other}").into()),
        }
    }
    Ok(output.flush()?)
}
