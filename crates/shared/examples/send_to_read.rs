//! The time from the send of a tensor to its bytes in a reader that waits, in another thread.
//!
//! `cargo run --release -p robocache_shared --example send_to_read [SIDE_PX [COUNT]]`: the tensor is an image of
//! `[3, SIDE, SIDE]` float32, by default 2 MiB; 100 per second.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use robocache_core::backend::Backend;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_ops::time::Epoch;
use robocache_shared::{TensorPublisher, TensorReader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |at: usize, usual: usize| {
        std::env::args().nth(at).map_or(Ok(usual), |text| text.parse::<usize>())
    };
    let side = number(1, 418)?;
    let count = number(2, 500)?;
    let text = format!(
        "rate_hz: 100\nstreams: {{c: {{type: sensor_msgs/Image, topic: /c, max_age_ms: 100, \
         image: {{resize: {{width: {side}, height: {side}}}}}}}}}"
    );
    let config = config::parse(&text, "send_to_read.yaml")?;
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::new(&config, &Layout::new(&config))?);
    let pipeline = Pipeline::new(config, backend)?;
    let service = format!("robocache_send_to_read/{}", std::process::id());
    let mut publisher = TensorPublisher::new(&service, &pipeline)?;
    let mut reader = TensorReader::new(&service)?;
    let (sent, instants) = channel::<Instant>();
    let reading = std::thread::spawn(move || {
        let mut times = Vec::new();
        while let Ok(Some(tensor)) = reader.wait(Duration::from_secs(2)) {
            let sum: u64 = tensor.message().iter().step_by(64).map(|byte| u64::from(*byte)).sum();
            std::hint::black_box(sum);
            let read = Instant::now();
            let Ok(sent) = instants.recv() else { break };
            times.push(read - sent);
        }
        times
    });
    let mut message = pipeline.new_message();
    let bytes = message.message().len();
    for tick in 0..count as i64 {
        pipeline.tick(tick, Epoch::default(), &mut message)?;
        std::thread::sleep(Duration::from_millis(10));
        let now = Instant::now();
        publisher.send(&mut message)?;
        sent.send(now)?;
        publisher.exchange(&pipeline, &mut message)?;
    }
    drop(sent);
    let mut times = reading.join().map_err(|_| "the reader failed")?;
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{bytes} bytes, {} tensors: p50 {:.3} p99 {:.3} ms", times.len(), at(0.5), at(0.99));
    Ok(())
}
