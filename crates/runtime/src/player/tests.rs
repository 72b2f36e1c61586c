//! The player on recorded messages, with both clocks.

use std::sync::Arc;

use super::*;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::layout::Layout;
use robocache_core::rejected::DropReason;
use robocache_core::spec::{SegmentId, StreamId};
use robocache_ops::time::NANOS_PER_MS;

const CONFIG: &str = "
rate_hz: 100
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, strategy: hold, dtype: f32}
";
const W: InputId = InputId::new(0);

fn player(simulated: bool) -> Player {
    player_of(CONFIG, simulated)
}

fn player_of(config: &str, simulated: bool) -> Player {
    let config = robocache_core::config::parse(config, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    Player::new(Pipeline::new(config, backend).unwrap(), simulated, TimeSource::real())
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
    let mut player = player(false);
    let mut ticks = Ticks::new();
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
    let mut player = player(false);
    let mut ticks = Ticks::new();
    let mut serve = noted(&mut ticks);
    player.start(ms(1000), &mut serve).unwrap();
    player.receive(W, wrench(ms(1000), 1.0), Received::at(ms(1000)), &mut serve).unwrap();
    player.end(ms(1000), &mut serve).unwrap();
    drop(serve);
    assert_eq!(ticks, [(100, 0, Some(1.0))]);
}

#[test]
fn a_recorders_clock_that_jumps_back_begins_an_epoch() {
    let mut player = player(false);
    let mut ticks = Ticks::new();
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
    let mut player = player(false);
    let mut ticks = Ticks::new();
    let mut serve = noted(&mut ticks);
    let epoch = Epoch::numbered;
    let receive = |player: &mut Player, number, at: i64, value| {
        let arrival = Arrival { stamp: Some(ms(at)), epoch: epoch(number), ..Arrival::default() };
        player.receive_as(W, wrench(ms(at), value), ms(at), arrival).unwrap();
    };
    receive(&mut player, 0, 1000, 1.0);
    player.serve_recorded(epoch(0), 101, &mut serve).unwrap();
    // The clock is set back by 150 ms, and the first message comes 200 ms later: no arrival goes back.
    player.serve_recorded(epoch(1), 90, &mut serve).unwrap();
    receive(&mut player, 1, 1050, 2.0);
    player.serve_recorded(epoch(1), 105, &mut serve).unwrap();
    // After an hour without a message.
    player.serve_recorded(epoch(1), 360_000, &mut serve).unwrap();
    // Two steps: one epoch has no message.
    receive(&mut player, 3, 1055, 3.0);
    player.serve_recorded(epoch(3), 106, &mut serve).unwrap();
    // It belongs to an epoch that is over.
    player.serve_recorded(epoch(1), 107, &mut serve).unwrap();
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
    let mut player = player(false);
    let mut ticks = Ticks::new();
    let mut serve = noted(&mut ticks);
    let year = ms(365 * 24 * 3_600_000);
    for at in [ms(1000), year] {
        player.receive(W, wrench(at, 1.0), Received::at(at), &mut serve).unwrap();
    }
    player.end(year, &mut serve).unwrap();
    drop(serve);
    assert_eq!(ticks.iter().map(|(tick, ..)| *tick).collect::<Vec<_>>(), [3_153_600_000]);
    assert_eq!(player.runtime().clock.times_set_ahead(), 1);
}

#[test]
fn a_simulators_clock_serves_its_newest_tick() {
    let mut player = player(true);
    let mut ticks = Ticks::new();
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
    assert_eq!(player.runtime().ticks.grid.overruns.get(), 1);
}

/// A localisation says where the odometry's frame is, and poses are wanted in the map.
const LOCALISED: &str = "
rate_hz: 100
streams:
  goal: {type: geometry_msgs/PoseStamped, topic: /goal, strategy: hold, in_frame: map, max_age_ms: 500}
";

fn map_to_odom(stamp: Stamp) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.header(stamp, "map");
    writer.string("odom");
    writer.f64_array(&[1.0, 0.0, 0.0]);
    writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    writer.finish()
}

fn goal(stamp: Stamp) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "odom");
    writer.f64_array(&[0.0; 3]);
    writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    writer.finish()
}

/// Plays 20 s of `/clock` twice, with transforms that are stamped 0.5 s ahead, as AMCL does. Returns for each pass the
/// transforms dropped as `cleared`, and the poses dropped because a transform was missing.
fn loop_with_transforms_ahead(tells_publications: bool) -> [[u64; 2]; 2] {
    const PASS_MS: i64 = 20_000;
    let mut player = player_of(LOCALISED, true);
    let config = player.runtime().pipeline.config();
    let id = |name: &str| config.input_ids().find(|id| config.input(*id).name == name).unwrap();
    let goals = id("goal");
    let tf = id("tf");
    let mut serve = |_: Served<'_>| Ok::<_, RuntimeError>(());
    let mut counts = [[0; 2]; 2];
    for (pass, counts) in (0..).zip(&mut counts) {
        let dropped = |player: &Player| {
            let of = |id, reason| player.runtime().input_stats(id).dropped(reason);
            [of(tf, DropReason::Cleared), of(goals, DropReason::NoTransform)]
        };
        let before = dropped(&player);
        for at in (0..PASS_MS).step_by(5) {
            let now = ms(1_000_000 + pass * PASS_MS + at);
            let published = tells_publications.then_some(now);
            let received = Received { published, ..Received::at(now) };
            let simulated = ms(50_000 + at);
            if at % 25 == 0 {
                player.set_clock(simulated, received, &mut serve).unwrap();
            }
            if at == 0 {
                // So that the first poses have a transform.
                player.receive(tf, map_to_odom(simulated), received, &mut serve).unwrap();
            }
            if at % 50 == 0 {
                let ahead = map_to_odom(simulated.offset(500 * NANOS_PER_MS));
                player.receive(tf, ahead, received, &mut serve).unwrap();
            }
            if at % 10 == 0 {
                player.receive(goals, goal(simulated), received, &mut serve).unwrap();
            }
        }
        let end = dropped(&player);
        *counts = [end[0] - before[0], end[1] - before[1]];
    }
    assert_eq!(player.runtime().pipeline.clock_jumps(), 1);
    counts
}

#[test]
fn a_looped_bag_with_transforms_ahead_is_as_valid_in_its_second_pass_as_in_its_first() {
    // Also if nobody knows when messages were published: no transform is near the instant that the old pass reached.
    for tells_publications in [true, false] {
        assert_eq!(loop_with_transforms_ahead(tells_publications), [[0, 0]; 2]);
    }
}

#[test]
fn what_waited_for_the_recorder_is_a_row_at_its_receive_stamp_and_seen_later() {
    let text = CONFIG.replace("topic: /w", "topic: /w, timeline: receive");
    let mut player = player_of(&text, false);
    let mut ticks = Ticks::new();
    let mut serve = noted(&mut ticks);
    // All three were taken at 1025 ms: two of them were received at 1004 ms.
    for (waited_ms, value) in [(21, 1.0), (21, 2.0), (0, 3.0)] {
        let received = Received { waited_ns: waited_ms * NANOS_PER_MS, ..Received::at(ms(1025)) };
        player.receive(W, wrench(Stamp::ZERO, value), received, &mut serve).unwrap();
    }
    player.end(ms(1030), &mut serve).unwrap();
    drop(serve);
    let before = |stamp| player.runtime().pipeline.row_before(StreamId::new(0), stamp);
    assert_eq!(before(ms(1025)), Some(ms(1004).offset(1)), "none replaces another");
    assert_eq!(before(ms(1004).offset(1)), Some(ms(1004)));
    assert_eq!(ticks, [(103, 0, Some(3.0))]);
}

#[test]
fn a_latched_message_is_valid_in_each_pass_of_a_bag() {
    let text = CONFIG.replace("max_age_ms: 50", "timeline: receive, max_age_ms: 100000");
    for (simulated, threads) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let player = player_of(&text, simulated).with_latched(&[W]);
        let mut ticks = Ticks::new();
        let mut player = player.with_threads(threads).unwrap();
        let mut serve = noted(&mut ticks);
        for pass in 0..3 {
            // The bag's clock, or the recorder's, begins again.
            for at in (0..1000).step_by(10) {
                let received = Received::at(match simulated {
                    true => ms(100_000 + pass * 1000 + at),
                    false => ms(100_000 + at),
                });
                if simulated {
                    player.set_clock(ms(5000 + at), received, &mut serve).unwrap();
                }
                if (pass, at) == (0, 500) {
                    player.receive(W, wrench(Stamp::ZERO, 1.0), received, &mut serve).unwrap();
                }
                if !simulated {
                    player.start(received.at, &mut serve).unwrap();
                }
            }
        }
        drop(serve);
        let valid = |epoch: u64| ticks.iter().filter(|t| t.1 == epoch && t.2 == Some(1.0)).count();
        let first = u64::from(simulated);
        let counts = [valid(first), valid(first + 1), valid(first + 2)];
        assert!((48..=51).contains(&counts[0]), "{simulated}: {counts:?}");
        assert!(counts[1..].iter().all(|count| *count >= 98), "{simulated}: {counts:?}");
    }
}

#[test]
fn a_latched_message_from_before_an_episode_of_a_nodes_recording_counts_once() {
    let text = CONFIG.replace("max_age_ms: 50", "timeline: receive, max_age_ms: 100000");
    let mut player = player_of(&text, true).with_latched(&[W]);
    let mut ticks = Ticks::new();
    let mut serve = noted(&mut ticks);
    player.receive(W, wrench(Stamp::ZERO, 1.0), Received::at(ms(100_000)), &mut serve).unwrap();
    for (pass, start) in [(0, 5000), (1, 2000)] {
        for at in (0..1000).step_by(10) {
            let received = Received::at(ms(100_000 + pass * 1000 + at));
            player.set_clock(ms(start + at), received, &mut serve).unwrap();
            player.end_latched();
        }
    }
    drop(serve);
    let valid = |epoch: u64| ticks.iter().filter(|t| t.1 == epoch && t.2 == Some(1.0)).count();
    assert!(valid(1) >= 98 && valid(2) == 0, "the recording has it for the second epoch");
}

/// A player of an arm with commands at 250 Hz, and of wrenches.
fn arm_player(simulated: bool) -> Player {
    let wrench = "streams:\n  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}\n";
    let text = include_str!("../../../../tests/arm.yaml");
    let text = text.replace("streams:\n", wrench).replace("  rate_hz: 100", "  rate_hz: 250");
    player_of(&text, simulated).with_commands()
}

/// A tick or a command tick: which, its epoch, and its instant on the grid [ms].
type Both = Vec<(char, u64, i64)>;

fn both(ticks: &mut Both) -> impl FnMut(Served<'_>) -> Result<(), RuntimeError> {
    |served| {
        ticks.push(match served {
            Served::Tensor(tick, _) | Served::HeldBack(tick) => {
                ('t', tick.epoch.number(), 10 * tick.number)
            }
            Served::Commands(due, _) => ('c', due.epoch.number(), 4 * due.tick),
        });
        Ok(())
    }
}

#[test]
fn command_ticks_are_due_on_their_own_grid_and_after_a_tick_at_the_same_instant() {
    let mut player = arm_player(false);
    let mut ticks = Both::new();
    let mut serve = both(&mut ticks);
    for (at, value) in [(998, 1.0), (1010, 2.0), (505, 3.0)] {
        player.receive(W, wrench(ms(at), value), Received::at(ms(at)), &mut serve).unwrap();
    }
    player.end(ms(512), &mut serve).unwrap();
    drop(serve);
    let c = |epoch, at| ('c', epoch, at);
    let first = [('t', 0, 1000), c(0, 1000), c(0, 1004), c(0, 1008)];
    // The clock has jumped back: what was due by it until then is past.
    let second = [c(1, 508), ('t', 1, 510), c(1, 512)];
    assert_eq!(ticks, [&first[..], &second].concat());
}

#[test]
fn a_simulators_clock_serves_its_newest_command_tick() {
    let mut player = arm_player(true);
    let mut ticks = Both::new();
    let mut serve = both(&mut ticks);
    for (at, received) in [(1000, 10), (1002, 11), (1021, 12), (500, 13)] {
        player.set_clock(ms(at), Received::at(ms(received)), &mut serve).unwrap();
    }
    drop(serve);
    let first = [('t', 1, 1000), ('c', 1, 1000), ('t', 1, 1020), ('c', 1, 1020)];
    assert_eq!(ticks, [&first[..], &[('t', 2, 500), ('c', 2, 500)]].concat());
}
