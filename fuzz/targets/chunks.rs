//! Chunks of actions, from their bytes to commands. The first byte is the number of command ticks from the answered
//! tensor to the chunk. The rest is a serialized ActionChunk.

use super::super::chunks::{CHUNK, COMMANDS};
use super::super::streams::STAMP;
use robocache_core::command::output::CommandType;
use robocache_core::command::{ActionChunk, CommandGroup, CommandTick, Found, SentChunk};
use robocache_ops::time::NANOS_PER_S;

/// Positions of the joints when commands begin.
const MEASURED: [f64; 2] = [0.5, -0.25];
/// Ticks until the plan is over and the joints are at rest: 0.5 s of rows, 0.2 s to stop, and more.
const TICKS: i64 = 250;

pub(crate) fn run(input: &[u8]) {
    let Some((late, message)) = input.split_first() else { return };
    let Ok(chunk) = ActionChunk::read(message) else { return };
    write_again(&chunk);
    command(i64::from(*late), &chunk);
}

/// Checks that a chunk, written again, is read as it was.
fn write_again(chunk: &ActionChunk<'_>) {
    let names = ["a", "b"].map(str::to_owned);
    let Ok(group) = std::str::from_utf8(chunk.group) else { return };
    let rows = chunk.rows.checked_mul(names.len());
    if !chunk.has_names(["a", "b"].into_iter()) || rows != Some(chunk.values.len()) {
        return;
    }
    let (values, reference): (Vec<_>, Vec<_>) =
        (chunk.values.iter().collect(), chunk.reference.iter().collect());
    let sent = SentChunk {
        run: chunk.run,
        epoch: chunk.epoch,
        stamp: chunk.stamp,
        tick: chunk.tick,
        sequence: chunk.sequence,
        group,
        names: &names,
        values: &values,
        reference: &reference,
    };
    let written = sent.to_cdr(Vec::new());
    let again = ActionChunk::read(&written).expect("what was written");
    let same = |one: &ActionChunk<'_>| (one.run, one.epoch, one.stamp, one.tick, one.sequence);
    assert_eq!((same(&again), again.group, again.rows), (same(chunk), chunk.group, chunk.rows));
    let bits = |all: Vec<f32>| all.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(again.values.iter().collect()), bits(values));
    assert_eq!(bits(again.reference.iter().collect()), bits(reference));
}

/// A chunk that is refused moves nothing. Commands of any other begin at the measured values, keep to the limits, and
/// end at rest.
fn command(late: i64, chunk: &ActionChunk<'_>) {
    let grid = COMMANDS.grid;
    let spec = &COMMANDS.groups[0];
    let mut group = CommandGroup::new(spec, grid);
    let output = CommandType::find(spec.output.ros_type).expect("a known type");
    let mut output = output.open(&group, spec.output.form);
    group.enable();
    let first = grid.tick_at(STAMP) + late;
    let at = |tick| {
        let tick = first + tick;
        CommandTick { tick, stamp: grid.stamp_of(tick), run: CHUNK.run, epoch: CHUNK.epoch }
    };
    let served = (chunk.stamp, chunk.tick) == (CHUNK.stamp, CHUNK.tick);
    let taken = group.take(at(0), Found { chunk, writer: 1, served });
    assert_eq!(group.counts().refused.iter().sum::<u64>(), u64::from(taken.is_err()));
    let period_s = grid.period_ns() as f64 / NANOS_PER_S as f64;
    let [mut last, mut moved] = [MEASURED, [0.0; 2]];
    for tick in 0..TICKS {
        let made = group.tick(at(tick), Some(&MEASURED));
        assert!(taken.is_ok() || !made.sends, "{taken:?}");
        let _ = output.write(at(tick), made, &mut group);
        if !made.sends {
            continue;
        }
        for (joint, command) in group.command().iter().enumerate() {
            let moves = command - last[joint];
            assert!(made.starts <= (moves == 0.0), "joint {joint} begins at {command}");
            // Rounding is relative to the command, which is far below 10.
            assert!(moves.abs() <= 2.0 * period_s + 1e-12, "joint {joint}: {moves}");
            let bent = moves - moved[joint];
            assert!(bent.abs() <= 10.0 * period_s * period_s + 1e-12, "joint {joint}: {bent}");
            (last[joint], moved[joint]) = (*command, moves);
        }
    }
    assert_eq!(moved, [0.0; 2], "at rest");
}
