//! The player on recorded messages, with both clocks.

use std::sync::Arc;

use super::*;
use crate::backend::cpu::CpuBackend;
use crate::cdr::Writer;
use crate::layout::Layout;
use crate::spec::SegmentId;
use crate::time::NANOS_PER_MS;

const CONFIG: &str = "
rate_hz: 100
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, strategy: hold, dtype: f32}
";
const W: InputId = InputId::new(0);

fn player(simulated: bool) -> Player {
    let config = crate::config::parse(CONFIG, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    Player::new(Pipeline::new(config, backend).unwrap(), simulated)
}

fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * NANOS_PER_MS)
}

fn wrench(stamp: Stamp, value: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "tool");
    writer.f64_array(&[value; 6]);
    writer.finish()
}

/// Per tick: its number, its epoch, and its value if it is valid.
type Ticks = Vec<(i64, u64, Option<f32>)>;

fn noted(ticks: &mut Ticks) -> impl FnMut(Served<'_>) -> Result<(), RuntimeError> {
    |served| {
        if let Served::Tensor(Tick { number, epoch, .. }, message) = served {
            let value = f32::from_le_bytes(*message.data().first_chunk().unwrap());
            let valid = message.steps(SegmentId::new(0))[0].valid;
            ticks.push((number, epoch.number(), valid.then_some(value)));
        }
        Ok(())
    }
}

#[test]
fn a_tick_sees_what_was_received_before_it_or_at_its_instant() {
    let (mut player, mut ticks) = (player(false), Ticks::new());
    let mut serve = noted(&mut ticks);
    // Stamped and received: the second comes at the instant of tick 101, the third a moment later.
    for (stamp, received_ns, value) in
        [(1000, 1_002_000_000, 1.0), (1005, 1_010_000_000, 2.0), (1009, 1_010_000_001, 3.0)]
    {
        let received = Received::at(Stamp::from_nanos(received_ns));
        player.receive(W, wrench(ms(stamp), value), received, &mut serve).unwrap();
    }
    player.end(ms(1030), &mut serve).unwrap();
    drop(serve);
    // The first message is at 1002 ms, so tick 100, at 1000 ms, is not served.
    assert_eq!(ticks, [(101, 0, Some(2.0)), (102, 0, Some(3.0)), (103, 0, Some(3.0))]);
    assert_eq!(player.runtime().ticks.published.get(), 3);
}

#[test]
fn a_tick_at_the_first_instant_is_served() {
    let (mut player, mut ticks) = (player(false), Ticks::new());
    let mut serve = noted(&mut ticks);
    player.start(ms(1000), &mut serve).unwrap();
    player.receive(W, wrench(ms(1000), 1.0), Received::at(ms(1000)), &mut serve).unwrap();
    player.end(ms(1000), &mut serve).unwrap();
    drop(serve);
    assert_eq!(ticks, [(100, 0, Some(1.0))]);
}

#[test]
fn a_recorders_clock_that_jumps_back_begins_an_epoch() {
    let (mut player, mut ticks) = (player(false), Ticks::new());
    let mut serve = noted(&mut ticks);
    for (at, value) in [(1000, 1.0), (1015, 2.0), (505, 3.0), (515, 4.0)] {
        player.receive(W, wrench(ms(at), value), Received::at(ms(at)), &mut serve).unwrap();
    }
    player.end(ms(525), &mut serve).unwrap();
    drop(serve);
    let expected =
        [(100, 0, Some(1.0)), (101, 0, Some(1.0)), (51, 1, Some(3.0)), (52, 1, Some(4.0))];
    assert_eq!(ticks, expected);
    assert_eq!(player.runtime().pipeline.clock_jumps(), 1);
}

#[test]
fn recorded_epochs_and_ticks_drive_the_player() {
    let (mut player, mut ticks) = (player(false), Ticks::new());
    let mut serve = noted(&mut ticks);
    let epoch = Epoch::numbered;
    let receive = |player: &mut Player, number, at: i64, value| {
        let arrival = Arrival { stamp: Some(ms(at)), epoch: epoch(number), ..Arrival::default() };
        player.receive_as(W, wrench(ms(at), value), ms(at), arrival).unwrap();
    };
    receive(&mut player, 0, 1000, 1.0);
    player.serve_recorded((epoch(0), 101), &mut serve).unwrap();
    // The clock is set back by 150 ms, and the first message comes 200 ms later: no arrival goes back.
    player.serve_recorded((epoch(1), 90), &mut serve).unwrap();
    receive(&mut player, 1, 1050, 2.0);
    player.serve_recorded((epoch(1), 105), &mut serve).unwrap();
    // After an hour without a message.
    player.serve_recorded((epoch(1), 360_000), &mut serve).unwrap();
    // Two steps: one epoch has no message.
    receive(&mut player, 3, 1055, 3.0);
    player.serve_recorded((epoch(3), 106), &mut serve).unwrap();
    // It belongs to an epoch that is over.
    player.serve_recorded((epoch(1), 107), &mut serve).unwrap();
    drop(serve);
    let expected = [
        (101, 0, Some(1.0)),
        (90, 1, None),
        (105, 1, Some(2.0)),
        (360_000, 1, None),
        (106, 3, Some(3.0)),
    ];
    assert_eq!(ticks, expected);
}

#[test]
fn there_are_no_ticks_in_a_long_silence() {
    let (mut player, mut ticks) = (player(false), Ticks::new());
    let mut serve = noted(&mut ticks);
    let year = ms(365 * 24 * 3_600_000);
    for at in [ms(1000), year] {
        player.receive(W, wrench(at, 1.0), Received::at(at), &mut serve).unwrap();
    }
    player.end(year, &mut serve).unwrap();
    drop(serve);
    assert_eq!(ticks.iter().map(|(tick, ..)| *tick).collect::<Vec<_>>(), [3_153_600_000]);
    assert_eq!(player.runtime().ticks.clock_set_ahead.get(), 1);
}

#[test]
fn a_simulators_clock_serves_its_newest_tick() {
    let (mut player, mut ticks) = (player(true), Ticks::new());
    let mut serve = noted(&mut ticks);
    for (at, simulated) in [(0, 1005), (50, 1011), (100, 1034), (150, 5), (200, 11)] {
        player.set_clock(ms(simulated), Received::at(ms(at)), &mut serve).unwrap();
        let received = Received::at(ms(at + 1));
        let message = wrench(ms(simulated), simulated as f64);
        player.receive(W, message, received, &mut serve).unwrap();
    }
    player.end(ms(1_000_000), &mut serve).unwrap();
    drop(serve);
    assert_eq!(ticks, [(101, 1, Some(1005.0)), (103, 1, Some(1011.0)), (1, 2, Some(5.0))]);
    assert_eq!(player.runtime().ticks.overruns.get(), 1);
}
