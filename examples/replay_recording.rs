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
//! The inputs of a configuration are those of its streams, in their order. If it asks for a frame, `/tf`,
//! `/tf_static`, the topics of `tf.odometry` and those of `deskew.gyro` follow. The topics of
//! `image.undistort` are last. Streams that share a gyro or a camera share its input, which has the place of
//! the first.
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
use robocache::pipeline::{Arrival, DropReason, Pipeline, PushError, Rejected, TickOutcome};
use robocache::runtime::{Message, Waiting};
use robocache::spec::{InputId, Selection};
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

/// A pipeline, and the messages that wait for a transform, as a live node keeps them.
struct Replay {
    pipeline: Pipeline,
    waiting: Waiting,
    epoch: Epoch,
}

impl Replay {
    fn read_message(&self, input: &mut impl Read) -> Result<Message, Error> {
        let number = u32::from_le_bytes(read(input)?) as usize;
        let stamp = Stamp::from_nanos(i64::from_le_bytes(read(input)?));
        let mut message = vec![0; u32::from_le_bytes(read(input)?) as usize];
        input.read_exact(&mut message)?;
        if number >= self.pipeline.config().inputs.len() {
            return Err(format!("input {number} is not in the configuration").into());
        }
        let arrival = Arrival { stamp: Some(stamp), epoch: self.epoch, ..Arrival::default() };
        let (input, bytes) = (InputId::new(number), Box::new(message));
        Ok(Message { input, publisher: None, bytes, arrival })
    }

    /// Pushes a message and those that waited for it. Drops are counted, as in a live node.
    fn push(&mut self, message: Message) -> Result<(), Error> {
        let selection = &self.pipeline.config().input(message.input).selection;
        if let (Selection::Transforms { .. }, Some(now)) = (selection, message.arrival.stamp) {
            self.give_up(now);
        }
        let mut next = vec![message];
        while !next.is_empty() {
            for message in next {
                let bytes = (*message.bytes).as_ref();
                match self.pipeline.push(message.input, bytes, message.arrival) {
                    Ok(_) | Err(PushError::Dropped(_)) => {}
                    Err(PushError::Backend(error)) => return Err(error.into()),
                    Err(PushError::Waits(need)) => {
                        let crowded_out = self.waiting.put(message, *need);
                        self.drop_all(crowded_out);
                    }
                }
            }
            next = self.waiting.settled(&self.pipeline);
        }
        Ok(())
    }

    /// Drops the messages that have waited for too long.
    fn give_up(&mut self, now: Stamp) {
        let expired = self.waiting.expired(self.epoch, now);
        self.drop_all(expired);
    }

    fn drop_all(&self, dropped: Vec<(Message, Rejected)>) {
        for (message, rejected) in dropped {
            self.pipeline.drop_unseen(message.input, rejected.reason);
        }
    }

    /// Begins an epoch, because the clock jumped back from this instant.
    fn begin(&mut self, jumped_from: Stamp) {
        self.epoch = self.epoch.next(Some(jumped_from));
        for message in self.waiting.before(self.epoch) {
            self.pipeline.drop_unseen(message.input, DropReason::Cleared);
        }
    }
}

fn main() -> Result<(), Error> {
    let options = Options::parse();
    let config = config::load(&options.config)?;
    let backend = backend::create(options.backend, options.device, &config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, backend)?;
    eprintln!("replaying on the {} backend", pipeline.backend_name());
    let mut frame = pipeline.new_message();
    let waiting = Waiting::new(pipeline.config());
    let mut replay = Replay { pipeline, waiting, epoch: Epoch::default() };
    let mut input = BufReader::new(File::open(options.recording)?);
    let mut output = BufWriter::new(File::create(options.output)?);
    let mut kind = [0];
    let mut last = i64::MIN;
    while input.read(&mut kind)? == 1 {
        match kind[0] {
            0 => {
                let message = replay.read_message(&mut input)?;
                replay.push(message)?;
            }
            1 => {
                let tick = i64::from_le_bytes(read(&mut input)?);
                // If the clock jumped back, an epoch begins, as in a live node.
                let grid = replay.pipeline.config().grid;
                if tick < last {
                    replay.begin(grid.stamp_of(last));
                }
                last = tick;
                replay.give_up(grid.stamp_of(tick));
                if replay.pipeline.tick(tick, replay.epoch, &mut frame)? == TickOutcome::Ready {
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
