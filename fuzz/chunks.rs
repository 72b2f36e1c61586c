//! Chunks of actions as seeds, and the group that they are for.

use std::sync::LazyLock;

use robocache_core::command::SentChunk;
use robocache_core::config;
use robocache_core::spec::CommandsSpec;

use super::streams::STAMP;

const CONFIG: &str = "
rate_hz: 100
streams: {joints: {type: sensor_msgs/JointState, topic: /joints, joints: [a, b], max_age_ms: 50}}
commands:
  rate_hz: 250
  groups:
    arm:
      joints: [a, b]
      rows: {steps: 25, step_ms: 20}
      angular: [a]
      relative: [b]
      interpolate: cubic
      start_from: joints
      watchdog_ms: 600
      limits: {joints: {a: {velocity: 2, acceleration: 10}, b: {position: [-3, 3], velocity: 2, acceleration: 10}}}
      output: {topic: /commands, type: trajectory_msgs/msg/JointTrajectory, points_ms: 20}
";

/// The commands of the target.
pub(crate) static COMMANDS: LazyLock<CommandsSpec> = LazyLock::new(|| {
    let config = config::parse(CONFIG, "fuzz.yaml").expect("a configuration");
    config.commands.expect("commands")
});

/// A chunk that the group takes; tests change it.
pub(crate) const CHUNK: SentChunk<'static> = SentChunk {
    run: 3,
    epoch: 1,
    stamp: STAMP,
    tick: 7,
    sequence: 1,
    group: "arm",
    names: &[],
    values: &[],
    reference: &[0.5, 0.25],
};

/// A byte for the command ticks from the answered tensor to the chunk, and a chunk.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let names = ["a", "b"].map(str::to_owned);
    let values = |rows: u8, size: f32| -> Vec<f32> {
        (0..2 * rows).map(|at| size * f32::from(at % 7 + at / 7)).collect()
    };
    let small = values(25, 0.1);
    let large = values(25, 1e37);
    let nan = [0.5, f32::NAN];
    let good = SentChunk { names: &names, values: &small, ..CHUNK };
    let odd = &small[1..];
    let many = values(26, 0.1);
    let chunks = [
        good,
        SentChunk { values: &large, ..good },
        SentChunk { values: &nan, ..good },
        SentChunk { values: &[0.5, 0.25], ..good },
        SentChunk { values: odd, ..good },
        SentChunk { values: &many, ..good },
        SentChunk { values: &[], ..good },
        SentChunk { reference: &[], ..good },
        SentChunk { reference: &[f32::INFINITY; 2], ..good },
        SentChunk { names: &names[..1], ..good },
        SentChunk { group: "", ..good },
    ];
    let message = |chunk: &SentChunk<'_>| chunk.to_cdr(Vec::new());
    let late = [0, 30, 124, 255].map(|late| [&[late][..], &message(&good)].concat());
    let mut seeds: Vec<_> = chunks.iter().map(|it| [&[10][..], &message(it)].concat()).collect();
    seeds.extend(late);
    seeds.push([&[0][..], &message(&good)[..60]].concat());
    seeds
}
