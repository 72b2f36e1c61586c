//! Commands from facts: the reports of users of other executors are among them, by their numbers.

mod reports;

use proptest::prelude::*;

use super::*;
use crate::command::chunk::{ActionChunk, SentChunk};
use crate::spec::{
    CommandForm, CommandOutputSpec, Interpolate, JointLimits, JointSpec, Late, StartSpec, StreamId,
};
use robocache_ops::time::NANOS_PER_MS;

/// Between two rows of a chunk \[ns\].
pub(in crate::command) const STEP_NS: i64 = 20 * NANOS_PER_MS;
/// Rows of a chunk at most.
pub(in crate::command) const ROWS: usize = 50;
const PERIOD_NS: i64 = 4 * NANOS_PER_MS;
const RUN: u64 = 77;

pub(in crate::command) fn joint(name: &str) -> JointSpec {
    JointSpec {
        name: name.to_owned(),
        interpolate: Interpolate::Linear,
        relative: false,
        angular: false,
        operators: Vec::new(),
        limits: JointLimits::default(),
    }
}

pub(in crate::command) fn group_of(joints: Vec<JointSpec>) -> GroupSpec {
    let channels = (0..joints.len()).collect();
    GroupSpec {
        contract: None,
        name: "arm".to_owned(),
        joints,
        interface: Interface::Position,
        offsets_ns: (0..ROWS as i64).map(|row| row * STEP_NS).collect(),
        lead_ns: 0,
        blend_ns: STEP_NS,
        start_from: StartSpec { stream: StreamId::new(0), channels },
        reference: None,
        watchdog_ns: 500 * NANOS_PER_MS,
        on_stall: End::Decelerate,
        on_end: End::Decelerate,
        on_late: Late::Ignore,
        rearm: false,
        output: CommandOutputSpec {
            topic: "/commands".to_owned(),
            ros_type: "std_msgs/msg/Float64MultiArray",
            form: CommandForm::EachTick,
        },
    }
}

/// One joint with the limits of an arm.
pub(in crate::command) fn limited() -> JointSpec {
    let limits =
        JointLimits { position: Some([-3.0, 3.0]), velocity: Some(2.0), acceleration: Some(10.0) };
    JointSpec { limits, ..joint("a") }
}

/// A group, and its ticks one after the other.
pub(in crate::command) struct Bench {
    pub group: CommandGroup,
    tick: i64,
    epoch: u64,
    sequence: u64,
    measured: Option<f64>,
}

impl Bench {
    pub(in crate::command) fn new(spec: GroupSpec) -> Self {
        let mut group = CommandGroup::new(&spec, TickGrid::new(PERIOD_NS).unwrap());
        group.enable();
        Bench { group, tick: 1000, epoch: 1, sequence: 0, measured: Some(0.0) }
    }

    fn of(joint: JointSpec) -> Self {
        Self::new(group_of(vec![joint]))
    }

    pub(in crate::command) fn at(&self) -> CommandTick {
        let stamp = Stamp::from_nanos(self.tick * PERIOD_NS);
        CommandTick { tick: self.tick, stamp, run: RUN, epoch: self.epoch }
    }

    fn now_ms(&self) -> i64 {
        self.tick * PERIOD_NS / NANOS_PER_MS
    }

    /// Gives a chunk that answers the tensor of an instant, after `change` has had a look at it.
    fn give(
        &mut self,
        answers_ms: i64,
        values: &[f32],
        change: impl Fn(&mut SentChunk<'_>),
        writer: u64,
        served: bool,
    ) -> Result<(), Refusal> {
        self.sequence += 1;
        let joints = &self.group.spec().joints;
        let names: Vec<String> = joints.iter().map(|joint| joint.name.clone()).collect();
        let mut sent = SentChunk {
            run: RUN,
            epoch: self.epoch,
            stamp: Stamp::from_nanos(answers_ms * NANOS_PER_MS),
            tick: answers_ms / 20,
            sequence: self.sequence,
            group: "arm",
            names: &names,
            values,
            reference: &[],
        };
        change(&mut sent);
        let message = sent.to_cdr(Vec::new());
        let chunk = ActionChunk::read(&message)?;
        self.group.take(self.at(), Found { chunk: &chunk, writer, served })
    }

    pub(in crate::command) fn chunk(
        &mut self,
        answers_ms: i64,
        values: &[f32],
    ) -> Result<(), Refusal> {
        self.give(answers_ms, values, |_| {}, 1, true)
    }

    /// Serves a tick. Returns its command of the first joint.
    pub(in crate::command) fn serve(&mut self) -> (Option<f64>, Made) {
        let at = self.at();
        let joints = self.group.spec().joints.len();
        let measured = self.measured.map(|value| vec![value; joints]);
        let made = self.group.tick(at, measured.as_deref());
        self.tick += 1;
        (made.sends.then(|| self.group.command()[0]), made)
    }

    /// Serves ticks up to an instant. Returns their commands.
    fn run_to(&mut self, ms: i64) -> Vec<Option<f64>> {
        let mut all = Vec::new();
        while self.now_ms() < ms {
            all.push(self.serve().0);
        }
        all
    }

    fn stage(&mut self) -> Stage {
        self.serve().1.stage
    }
}

/// The greatest change from command to command.
fn greatest_change(commands: &[Option<f64>]) -> f64 {
    let sent: Vec<f64> = commands.iter().flatten().copied().collect();
    sent.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f64::max)
}

/// Rows of a line.
pub(in crate::command) fn line(from: f32, slope_per_row: f32) -> Vec<f32> {
    (0..ROWS).map(|row| from + slope_per_row * row as f32).collect()
}

#[test]
fn a_command_is_the_plan_at_its_tick() {
    let mut bench = Bench::of(joint("a"));
    bench.chunk(4000, &line(0.0, 0.5)).unwrap();
    let commands = bench.run_to(4500);
    for (at, command) in commands.iter().enumerate().skip(10) {
        let expected = at as f64 * 4.0 / 20.0 * 0.5;
        assert!((command.unwrap() - expected).abs() < 1e-12, "{at}: {command:?}");
    }
    let newest = bench.group.newest().unwrap();
    assert_eq!((newest.sequence, newest.delay_ticks), (1, 0));
}

#[test]
fn a_lead_takes_the_plan_of_a_later_instant() {
    let spec = GroupSpec { lead_ns: 40 * NANOS_PER_MS, ..group_of(vec![joint("a")]) };
    let mut bench = Bench::new(spec);
    bench.chunk(4000, &line(0.0, 0.5)).unwrap();
    let commands = bench.run_to(4400);
    assert!((commands[50].unwrap() - (200.0 + 40.0) / 20.0 * 0.5).abs() < 1e-12);
}

#[test]
fn commands_begin_at_the_measured_value_and_limits_lead_to_the_plan() {
    // lerobot#4223: the first inference takes 0.7 s, and 21 rows are past from standstill.
    let spec = GroupSpec {
        watchdog_ns: 2 * NANOS_PER_S,
        blend_ns: 0,
        offsets_ns: (0..30).map(|row| row * NANOS_PER_S / 30).collect(),
        ..group_of(vec![limited()])
    };
    let mut bench = Bench::new(spec);
    bench.measured = Some(0.25);
    assert_eq!(bench.run_to(4700), vec![None; 175]);
    let rows: Vec<f32> = (0..30).map(|row| 0.25 + 0.05 * row as f32).collect();
    bench.chunk(4000, &rows).unwrap();
    assert_eq!(bench.group.counts().rows_late, 21);
    let (first, made) = bench.serve();
    assert_eq!((first, made.starts), (Some(0.25), true));
    let commands = [vec![first], bench.run_to(6000)].concat();
    assert!(greatest_change(&commands) <= 2.0 * 0.004 + 1e-12);
    assert!(commands[60].unwrap() > 0.5, "it does go to the plan: {:?}", commands[60]);
}

#[test]
fn nothing_is_sent_before_a_measured_value_or_a_plan() {
    let mut bench = Bench::of(joint("a"));
    assert_eq!(bench.stage(), Stage::Waiting);
    bench.measured = None;
    bench.chunk(bench.now_ms(), &line(0.0, 0.1)).unwrap();
    assert_eq!((bench.serve().0, bench.stage()), (None, Stage::Waiting));
    bench.measured = Some(0.5);
    let (command, made) = bench.serve();
    assert_eq!((command, made.stage), (Some(0.5), Stage::Following));
    // A plan that begins later sends nothing before.
    let mut bench = Bench::of(joint("a"));
    bench
        .give(4000, &[1.0; 3], |sent| sent.stamp = Stamp::from_nanos(3_980_000_000), 1, true)
        .unwrap();
    let spec = GroupSpec {
        offsets_ns: vec![100 * NANOS_PER_MS, 200 * NANOS_PER_MS],
        ..group_of(vec![joint("a")])
    };
    let mut bench = Bench::new(spec);
    bench.chunk(4000, &[1.0, 2.0]).unwrap();
    let commands = bench.run_to(4200);
    assert_eq!(commands.iter().position(Option::is_some), Some(25));
}

#[test]
fn a_seam_is_blended_over_one_row_and_has_no_spike() {
    // lerobot#4454: 95 is in force, and the new plan's rows are 103, then 95.
    let mut bench = Bench::of(joint("a"));
    bench.measured = Some(95.0);
    bench.chunk(4000, &[95.0; ROWS]).unwrap();
    bench.run_to(4100);
    bench.chunk(4100, &[95.0; ROWS]).unwrap();
    let commands = bench.run_to(4200);
    assert!(commands.iter().all(|command| *command == Some(95.0)), "{commands:?}");
    // A plan that is elsewhere is reached within one row's step, in equal parts.
    bench.chunk(4200, &[96.0; ROWS]).unwrap();
    let commands: Vec<f64> = bench.run_to(4240).into_iter().flatten().collect();
    let expected = [95.0, 95.2, 95.4, 95.6, 95.8, 96.0, 96.0];
    assert!(commands.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12));
    // A third chunk during a blend takes the difference again.
    bench.chunk(4240, &[97.0; ROWS]).unwrap();
    let half: Vec<f64> = bench.run_to(4252).into_iter().flatten().collect();
    bench.chunk(4252, &[96.0; ROWS]).unwrap();
    let rest: Vec<f64> = bench.run_to(4280).into_iter().flatten().collect();
    assert!((half[2] - 96.4).abs() < 1e-12 && (rest[0] - 96.6).abs() < 1e-12, "{half:?} {rest:?}");
    assert_eq!(rest.last(), Some(&96.0));
}

#[test]
fn newest_jumps_at_once_and_limits_alone_hold_it() {
    let mut bench = Bench::new(GroupSpec { blend_ns: 0, ..group_of(vec![joint("a")]) });
    bench.chunk(4000, &[0.0; ROWS]).unwrap();
    bench.run_to(4020);
    bench.chunk(4000, &[1.0; ROWS]).unwrap();
    assert_eq!(bench.serve().0, Some(1.0));
    let mut bench = Bench::new(GroupSpec { blend_ns: 0, ..group_of(vec![limited()]) });
    bench.chunk(4000, &[0.0; ROWS]).unwrap();
    bench.run_to(4020);
    bench.chunk(4000, &[1.0; ROWS]).unwrap();
    assert!((bench.serve().0.unwrap() - 10.0 * 0.004 * 0.004).abs() < 1e-15);
    assert_eq!(bench.group.counts().clipped, [1]);
}

#[test]
fn the_second_chunk_is_used_and_the_old_plan_counts_until_its_first_row() {
    let spec = GroupSpec {
        offsets_ns: (1..=20).map(|row| row * STEP_NS).collect(),
        blend_ns: 0,
        ..group_of(vec![joint("a")])
    };
    let mut bench = Bench::new(spec);
    bench.chunk(3980, &[1.0; 20]).unwrap();
    bench.run_to(4100);
    // It waits for 4120, and a newer one replaces it.
    bench.chunk(4100, &[2.0; 20]).unwrap();
    bench.chunk(4100, &[3.0; 20]).unwrap();
    let commands = bench.run_to(4140);
    assert!(commands[..5].iter().all(|command| *command == Some(1.0)), "{commands:?}");
    assert!(commands[5..].iter().all(|command| *command == Some(3.0)), "{commands:?}");
}

#[test]
fn a_row_that_is_just_past_is_a_neighbour_and_no_error() {
    // moveit#2375: a first point 64 us in the past.
    let mut bench = Bench::new(GroupSpec { blend_ns: 0, ..group_of(vec![joint("a")]) });
    bench
        .give(
            3980,
            &line(0.0, 1.0),
            |sent| sent.stamp = Stamp::from_nanos(4_000_000_000 - 64_000),
            1,
            true,
        )
        .unwrap();
    bench.serve();
    let (command, _) = bench.serve();
    let expected = (4.0 + 0.064) / 20.0;
    assert!((command.unwrap() - expected).abs() < 1e-12, "{command:?}");
    assert_eq!(bench.group.counts().rows_late, 1);
}

#[test]
fn deltas_are_added_to_their_reference_once() {
    // axol#191: deltas that are anchored to the current state again give a sawtooth.
    let spec = GroupSpec {
        offsets_ns: (0..10).map(|row| row * STEP_NS).collect(),
        ..group_of(vec![JointSpec { relative: true, ..joint("a") }])
    };
    let mut bench = Bench::new(spec);
    let truth = |ms: i64| 0.002 * (ms - 4000) as f32;
    let mut all = Vec::new();
    for answers in (4000..5000).step_by(100) {
        let deltas: Vec<f32> =
            (0..10).map(|row| truth(answers + 20 * row) - truth(answers)).collect();
        let reference = [truth(answers)];
        // The measured joint lags behind, and does not count.
        bench.measured = Some(-7.0);
        if all.is_empty() {
            bench.measured = Some(0.0);
        }
        let sent = bench.give(
            answers,
            &deltas,
            |sent| {
                sent.reference = if answers == 4000 { &[0.0] } else { &[] };
                let _ = reference;
            },
            1,
            true,
        );
        if answers > 4000 {
            assert_eq!(sent, Err(Refusal::Reference));
            let joints = vec!["a".to_owned()];
            let chunk = SentChunk {
                run: RUN,
                epoch: 1,
                stamp: Stamp::from_nanos(answers * NANOS_PER_MS),
                tick: answers / 20,
                sequence: bench.sequence + 1,
                group: "arm",
                names: &joints,
                values: &deltas,
                reference: &reference,
            };
            bench.sequence += 1;
            let message = chunk.to_cdr(Vec::new());
            let chunk = ActionChunk::read(&message).unwrap();
            bench.group.take(bench.at(), Found { chunk: &chunk, writer: 1, served: true }).unwrap();
        }
        all.extend(bench.run_to(answers + 100));
    }
    for (at, command) in all.iter().enumerate().skip(1) {
        let expected = 0.002 * (at * 4) as f64;
        assert!((command.unwrap() - expected).abs() < 2e-6, "{at}: {command:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_whole_and_changes_nothing() {
    let refused = |change: fn(&mut SentChunk<'_>), expected: Refusal| {
        let mut bench = Bench::of(joint("a"));
        bench.chunk(4000, &line(0.0, 0.1)).unwrap();
        bench.run_to(4040);
        let mut other = Bench { group: bench.group.clone(), ..bench };
        let given = other.give(4040, &[9.0; ROWS], change, 1, true);
        assert_eq!(given, Err(expected));
        assert_eq!(other.group.counts().refused[expected as usize], 1);
        let undisturbed = {
            let mut bench = Bench::of(joint("a"));
            bench.chunk(4000, &line(0.0, 0.1)).unwrap();
            bench.run_to(4500)
        };
        assert_eq!(other.run_to(4500), undisturbed[10..]);
    };
    refused(|sent| sent.run = 3, Refusal::Run);
    refused(|sent| sent.epoch = 0, Refusal::Epoch);
    refused(|sent| sent.names = &[], Refusal::Names);
    refused(|sent| sent.values = &[], Refusal::NoRows);
    refused(|sent| sent.values = &[0.0; ROWS + 1], Refusal::Shape);
    refused(|sent| sent.values = &[f32::NAN; 3], Refusal::NonFinite);
    refused(|sent| sent.sequence = 1, Refusal::Sequence);
    refused(
        |sent| (sent.tick, sent.stamp) = (199, Stamp::from_nanos(3_980_000_000)),
        Refusal::Older,
    );
    let mut bench = Bench::of(joint("a"));
    assert_eq!(bench.give(4000, &[1.0], |_| {}, 1, false), Err(Refusal::NotServed));
    bench.tick += 2501;
    assert_eq!(bench.chunk(4000, &[1.0]), Err(Refusal::TooOld));
    bench.group.disable(Disabling::Asked);
    assert_eq!(bench.chunk(bench.now_ms(), &[1.0]), Err(Refusal::Disabled));
    // strands#3404: an empty chunk is said, and nothing loops for it.
    assert_eq!(bench.serve().0, None);
}

#[test]
fn a_chunk_with_more_values_than_rows_is_refused() {
    let mut bench = Bench::new(group_of(vec![joint("a"), joint("b")]));
    // Three values for two joints are one row and a half.
    assert_eq!(bench.chunk(4000, &[1.0, 2.0, 3.0]), Err(Refusal::Shape));
}

#[test]
fn a_group_belongs_to_the_writer_of_its_newest_chunk() {
    let mut bench = Bench::of(joint("a"));
    bench.chunk(4000, &line(0.0, 0.1)).unwrap();
    let other = |bench: &mut Bench| bench.give(bench.now_ms(), &[5.0; ROWS], |_| {}, 2, true);
    assert_eq!(other(&mut bench), Err(Refusal::Writer));
    bench.run_to(4500);
    // Its own chunk that is refused does not hold the group.
    assert!(bench.give(4500, &[f32::NAN; 2], |_| {}, 1, true).is_err());
    assert_eq!(other(&mut bench), Err(Refusal::Writer));
    bench.serve();
    // Its sequence begins again.
    let first = bench.now_ms() / 20 * 20;
    bench.give(first, &[5.0; ROWS], |sent| sent.sequence = 0, 2, true).unwrap();
    assert_eq!(bench.give(first, &[5.0; ROWS], |_| {}, 1, true), Err(Refusal::Writer));
}

#[test]
fn without_new_chunks_the_watchdog_stops_the_joint_and_a_chunk_goes_on() {
    let mut bench = Bench::of(limited());
    bench.chunk(4000, &line(0.0, 0.01)).unwrap();
    let commands = bench.run_to(4504);
    assert_eq!(bench.group.counts().stalls, 0);
    let (_, made) = bench.serve();
    assert_eq!((made.stage, made.turns), (Stage::Stalled, true));
    let ends = [commands, bench.run_to(6000)].concat();
    let last = ends.last().unwrap().unwrap();
    assert!(ends[1..].iter().all(Option::is_some) && greatest_change(&ends) <= 0.008 + 1e-12);
    assert!(ends.iter().rev().take(200).all(|command| *command == Some(last)), "it is held");
    assert_eq!((bench.group.counts().stalls, bench.group.counts().ends), (1, 0));
    // A chunk that is refused, or late as a whole, does not end it.
    assert!(bench.give(6000, &[f32::NAN], |_| {}, 1, true).is_err());
    bench.chunk(5900, &[1.0]).unwrap();
    assert_eq!((bench.stage(), bench.group.counts().chunks_late), (Stage::Stalled, 1));
    bench.chunk(6000, &[last as f32 + 0.1; ROWS]).unwrap();
    let goes_on = bench.run_to(6400);
    assert!((goes_on[0].unwrap() - last).abs() < 1e-3, "{:?} {last}", goes_on[0]);
    assert!((goes_on.last().unwrap().unwrap() - last - 0.1).abs() < 1e-6);
}

#[test]
fn a_measured_value_that_turns_invalid_is_a_stall_until_the_next_good_chunk() {
    let mut bench = Bench::of(limited());
    bench.chunk(4000, &line(0.0, 0.01)).unwrap();
    bench.run_to(4100);
    bench.measured = None;
    assert_eq!(bench.stage(), Stage::Stalled);
    bench.measured = Some(0.0);
    assert_eq!(bench.stage(), Stage::Stalled);
    bench.chunk(4100, &line(0.0, 0.01)).unwrap();
    assert_eq!(bench.stage(), Stage::Following);
}

#[test]
fn after_its_last_row_a_plan_has_ended() {
    let mut bench = Bench::of(limited());
    bench.chunk(4000, &[0.0, 0.01, 0.02, 0.03]).unwrap();
    bench.run_to(4064);
    assert_eq!(bench.group.counts().ends, 0);
    assert_eq!(bench.stage(), Stage::Ended);
    let rest = bench.run_to(4200);
    assert!(rest.iter().all(Option::is_some));
    assert_eq!(rest[20], rest[30]);
    assert_eq!(bench.group.counts().ends, 1);
}

#[test]
fn silence_ends_at_once_and_the_next_commands_begin_at_the_measured_value() {
    let spec = GroupSpec { on_end: End::Silence, ..group_of(vec![joint("a")]) };
    let mut bench = Bench::new(spec);
    bench.chunk(4000, &[1.0, 1.0]).unwrap();
    assert_eq!(bench.run_to(4040), [vec![Some(0.0)], bench_line()].concat());
    bench.measured = Some(0.75);
    bench.chunk(4040, &[2.0, 2.0]).unwrap();
    assert_eq!(
        bench.serve(),
        (Some(0.75), Made { sends: true, stage: Stage::Following, starts: true, turns: true })
    );
}

/// From 0 to 1 within one row, then silence after the last row.
fn bench_line() -> Vec<Option<f64>> {
    let left = |at: i64| 1.0 - (at * PERIOD_NS) as f64 / STEP_NS as f64;
    let sent = (1..=5).map(|at| Some(if left(at) > 0.0 { 1.0 - left(at) } else { 1.0 }));
    sent.chain([None; 4]).collect()
}

#[test]
fn hold_stays_at_the_last_command() {
    let spec = GroupSpec { on_end: End::Hold, ..group_of(vec![joint("a")]) };
    let mut bench = Bench::new(spec);
    bench.chunk(4000, &[0.0, 0.5, 1.0]).unwrap();
    let commands = bench.run_to(4200);
    assert!(commands[10..].iter().all(|command| *command == Some(1.0)), "{commands:?}");
}

#[test]
fn a_chunk_whose_rows_are_all_past_is_ignored_or_its_last_row_held() {
    let chunk = [0.1, 0.2, 0.3];
    let mut bench = Bench::of(joint("a"));
    bench.run_to(4100);
    bench.chunk(4000, &chunk).unwrap();
    assert_eq!((bench.stage(), bench.group.newest()), (Stage::Waiting, None));
    let mut bench = Bench::new(GroupSpec { on_late: Late::Last, ..group_of(vec![joint("a")]) });
    bench.chunk(4000, &[0.0; ROWS]).unwrap();
    bench.run_to(4100);
    bench.chunk(4020, &chunk).unwrap();
    let commands = bench.run_to(4500);
    assert_eq!(commands[10], Some(f64::from(0.3f32)));
    assert_eq!(commands.last(), Some(&Some(f64::from(0.3f32))));
    // It has not fed the watchdog.
    bench.serve();
    assert_eq!(bench.stage(), Stage::Stalled);
}

#[test]
fn an_overrun_allows_one_period_and_a_long_one_begins_anew() {
    let mut bench = Bench::new(GroupSpec { blend_ns: 0, ..group_of(vec![limited()]) });
    bench.chunk(4000, &line(0.0, 0.02)).unwrap();
    let before = bench.run_to(4100).last().unwrap().unwrap();
    bench.tick += 50;
    let (after, made) = bench.serve();
    assert!(!made.starts && (after.unwrap() - before).abs() <= 0.008 + 1e-12);
    bench.tick += 200;
    bench.measured = Some(0.4);
    bench.chunk(bench.now_ms() / 20 * 20, &line(0.0, 0.02)).unwrap();
    let (command, made) = bench.serve();
    assert_eq!((command, made.starts), (Some(0.4), true));
}

#[test]
fn disabling_decelerates_and_enabling_begins_anew() {
    let mut bench = Bench::of(limited());
    bench.chunk(4000, &line(0.0, 0.03)).unwrap();
    bench.run_to(4200);
    bench.group.disable(Disabling::Asked);
    assert_eq!(bench.stage(), Stage::Stopping);
    let stops = bench.run_to(5000);
    assert!(greatest_change(&stops) <= 0.008 && stops[0].is_some());
    assert!(stops.last().unwrap().is_none() && bench.group.is_at_rest());
    bench.group.enable();
    assert_eq!(bench.stage(), Stage::Waiting);
    bench.measured = Some(1.25);
    bench.chunk(5000, &line(0.0, 0.03)).unwrap();
    assert_eq!(bench.serve().0, Some(1.25));
}

fn velocity() -> GroupSpec {
    let of = JointLimits { position: None, velocity: Some(1.0), acceleration: Some(5.0) };
    let joints = vec![JointSpec { limits: of, ..joint("a") }];
    GroupSpec { interface: Interface::Velocity, ..group_of(joints) }
}

#[test]
fn a_velocity_ends_in_zeros_for_a_tenth_of_a_second_and_then_silence() {
    let mut bench = Bench::new(velocity());
    bench.measured = Some(0.5);
    bench.chunk(4000, &[0.5; 5]).unwrap();
    let commands = bench.run_to(4600);
    assert_eq!(commands[0], Some(0.5));
    let zeros = commands.iter().filter(|command| **command == Some(0.0)).count();
    assert_eq!(zeros, 25);
    assert!(greatest_change(&commands) <= 5.0 * 0.004 + 1e-12);
    assert!(commands.last().unwrap().is_none());
}

#[test]
fn each_end_of_a_velocity_has_its_own_zeros() {
    for on_end in [End::Zeros, End::Decelerate] {
        let mut bench = Bench::new(GroupSpec { on_end, ..velocity() });
        bench.measured = Some(0.5);
        bench.chunk(4000, &[0.5; 5]).unwrap();
        // The next chunk comes while zeros are sent.
        bench.run_to(4220);
        assert_eq!(bench.group.command(), [0.0]);
        bench.chunk(4220, &[0.5; 20]).unwrap();
        let commands = bench.run_to(5200);
        let last = commands.iter().rposition(Option::is_some).unwrap();
        let zeros = commands[..=last].iter().rev().take_while(|of| **of == Some(0.0)).count();
        assert_eq!(zeros, 25, "{on_end:?}");
    }
}

#[test]
fn a_gap_ends_a_velocity_with_zeros_and_a_chunk_begins_at_what_is_measured() {
    let mut bench = Bench::new(velocity());
    bench.measured = Some(0.5);
    bench.chunk(4000, &[0.5; ROWS]).unwrap();
    bench.run_to(4100);
    bench.tick += 200;
    let commands = bench.run_to(5500);
    assert_eq!(commands[..25], [Some(0.0); 25]);
    assert!(commands[25..].iter().all(Option::is_none));
    bench.chunk(5500, &[0.5; ROWS]).unwrap();
    bench.run_to(5600);
    bench.tick += 200;
    bench.measured = Some(0.25);
    bench.chunk(bench.now_ms() / 20 * 20, &[0.5; ROWS]).unwrap();
    let (command, made) = bench.serve();
    assert_eq!((command, made.starts), (Some(0.25), true));
    // A measured velocity that is a glitch is no command.
    bench.tick += 200;
    bench.measured = Some(30.0);
    bench.chunk(bench.now_ms() / 20 * 20, &[0.5; ROWS]).unwrap();
    assert_eq!(bench.serve().0, Some(1.0));
}

#[test]
fn enabled_while_it_stops_a_position_comes_to_rest_before_it_begins_anew() {
    let mut bench = Bench::of(limited());
    bench.chunk(4000, &line(0.0, 0.03)).unwrap();
    bench.run_to(4300);
    bench.group.disable(Disabling::Asked);
    let before = bench.serve().0.unwrap();
    bench.group.enable();
    bench.measured = Some(-1.0);
    let stopped = bench.run_to(4320);
    assert!(stopped.iter().all(Option::is_some));
    bench.chunk(4320, &line(0.0, 0.03)).unwrap();
    let mut all = [vec![Some(before)], stopped].concat();
    let mut started = None;
    while started.is_none() {
        let (command, made) = bench.serve();
        match made.starts {
            true => started = command,
            false => all.push(command),
        }
    }
    assert_eq!((started, all.last()), (Some(-1.0), Some(&None)), "silence comes first");
    assert!(greatest_change(&all) <= 0.008 + 1e-12);
}

#[test]
fn without_a_chunk_an_enabled_position_sends_nothing_after_it_stops() {
    let mut bench = Bench::of(limited());
    bench.chunk(4000, &line(0.0, 0.03)).unwrap();
    bench.run_to(4300);
    bench.group.disable(Disabling::Asked);
    bench.group.enable();
    assert!(bench.run_to(6000).last().unwrap().is_none());
}

#[test]
fn hold_stops_within_the_limits_and_does_not_swing_back() {
    let spec = GroupSpec { on_end: End::Hold, ..group_of(vec![limited()]) };
    let mut bench = Bench::new(spec);
    bench.chunk(4000, &line(0.0, 0.03)[..20]).unwrap();
    let commands: Vec<f64> = bench.run_to(5000).into_iter().flatten().collect();
    assert!(commands.is_sorted(), "it never moves back");
    assert_eq!(commands.last(), commands.get(commands.len() - 50));
}

#[test]
fn a_late_chunk_moves_nothing_after_a_stall() {
    let mut bench = Bench::new(GroupSpec { on_late: Late::Last, ..group_of(vec![limited()]) });
    bench.chunk(4000, &[0.0; ROWS]).unwrap();
    bench.run_to(4600);
    assert_eq!((bench.stage(), bench.group.counts().stalls), (Stage::Stalled, 1));
    for answers in [4100, 4200, 4300] {
        bench.chunk(answers, &[1.0, 1.0]).unwrap();
        assert_eq!(bench.stage(), Stage::Stalled);
    }
    assert_eq!((bench.group.counts().stalls, bench.group.counts().chunks_late), (1, 3));
    assert_eq!(bench.group.command(), [0.0]);
}

#[test]
fn a_node_that_ends_otherwise_halts_velocities_alone() {
    for (spec, sends) in [(velocity(), true), (group_of(vec![limited()]), false)] {
        let mut bench = Bench::new(spec);
        bench.measured = Some(0.5);
        bench.chunk(4000, &[0.5; ROWS]).unwrap();
        bench.run_to(4100);
        assert_eq!(bench.group.halt(), sends);
        assert!(!sends || bench.group.command() == [0.0]);
    }
}

#[test]
fn a_new_epoch_ends_a_velocity_with_zeros_a_position_at_once_and_both_are_disabled() {
    for (spec, zeros) in [(velocity(), 25), (group_of(vec![joint("a")]), 0)] {
        let mut bench = Bench::new(spec);
        bench.measured = Some(0.5);
        bench.chunk(4000, &[0.5; ROWS]).unwrap();
        bench.run_to(4100);
        (bench.tick, bench.epoch) = (10, 2);
        bench.group.disable(Disabling::Broken);
        let commands = bench.run_to(1000);
        assert_eq!(commands[..zeros], vec![Some(0.0); zeros]);
        assert!(commands[zeros..].iter().all(Option::is_none), "{commands:?}");
        assert!(bench.group.is_at_rest());
        assert_eq!(bench.chunk(1000, &[0.5]), Err(Refusal::Disabled));
    }
    let mut bench = Bench::new(GroupSpec { rearm: true, ..velocity() });
    bench.measured = Some(0.5);
    bench.chunk(4000, &[0.5; ROWS]).unwrap();
    bench.run_to(4100);
    (bench.tick, bench.epoch) = (10, 2);
    bench.group.disable(Disabling::Broken);
    assert_eq!(bench.run_to(1000).iter().flatten().count(), 25);
    bench.chunk(1000, &[0.5; ROWS]).unwrap();
    assert_eq!(bench.serve().0, Some(0.5));
}

#[test]
fn an_angle_without_an_end_goes_on_without_a_turn() {
    let mut bench = Bench::of(JointSpec { angular: true, ..joint("a") });
    bench.measured = Some(9.3);
    bench.chunk(4000, &[3.0; ROWS]).unwrap();
    let commands = bench.run_to(4100);
    let expected = 3.0 + std::f64::consts::TAU;
    assert!((commands.last().unwrap().unwrap() - expected).abs() < 1e-6, "{commands:?}");
    bench.chunk(4100, &[-3.2; ROWS]).unwrap();
    let commands = bench.run_to(4200);
    assert!(greatest_change(&commands) < 0.1, "{commands:?}");
}

/// Event that a tick finds, drawn.
#[derive(Clone, Debug)]
enum Fact {
    Chunk { back: i64, values: Vec<f32>, writer: u64 },
    Ticks(u8),
    Missed(u8),
    Measured(Option<f64>),
    Enable,
    Disable(bool),
}

fn facts() -> impl Strategy<Value = Vec<Fact>> {
    let values = prop::collection::vec(-3.5..3.5f32, 1..ROWS);
    let fact = prop_oneof![
        6 => (0..40i64, values, 1..3u64)
            .prop_map(|(back, values, writer)| Fact::Chunk { back, values, writer }),
        8 => (1..60u8).prop_map(Fact::Ticks),
        1 => (1..200u8).prop_map(Fact::Missed),
        1 => prop_oneof![Just(None), (-3.0..3.0f64).prop_map(Some)].prop_map(Fact::Measured),
        2 => Just(Fact::Enable),
        1 => any::<bool>().prop_map(Fact::Disable),
    ];
    prop::collection::vec(fact, 1..60)
}

/// The commands of facts, with what each tick made.
fn commands_of(spec: &GroupSpec, facts: &[Fact]) -> Vec<(Option<f64>, Made)> {
    let mut bench = Bench::new(spec.clone());
    let mut all = Vec::new();
    for fact in facts {
        match fact {
            Fact::Chunk { back, values, writer } => {
                let answers = bench.now_ms() / 20 * 20 - 20 * back;
                let _ = bench.give(answers, values, |_| {}, *writer, true);
            }
            Fact::Ticks(ticks) => all.extend((0..*ticks).map(|_| bench.serve())),
            Fact::Missed(ticks) => bench.tick += i64::from(*ticks),
            Fact::Measured(value) => bench.measured = *value,
            Fact::Enable => bench.group.enable(),
            Fact::Disable(asked) => bench.group.disable(match asked {
                true => Disabling::Asked,
                false => Disabling::Broken,
            }),
        }
    }
    all
}

proptest! {
    #[test]
    fn whatever_comes_a_velocity_is_within_its_limits_and_ends_with_a_zero(
        facts in facts(),
        zeros in any::<bool>(),
    ) {
        let end = if zeros { End::Zeros } else { End::Decelerate };
        let spec = GroupSpec { on_stall: end, on_end: end, ..velocity() };
        let all = commands_of(&spec, &facts);
        let mut last: Option<f64> = None;
        for (command, made) in &all {
            if command.is_none() {
                prop_assert!(last.is_none_or(|last| last == 0.0), "silence follows {last:?}");
            }
            if let (Some(before), Some(now), false) = (last, command, made.starts) {
                let falls = *now == 0.0;
                prop_assert!((now - before).abs() <= 5.0 * 0.004 + 1e-12 || falls);
            }
            prop_assert!(command.is_none_or(|command| command.abs() <= 1.0));
            last = *command;
        }
    }

    #[test]
    fn whatever_comes_no_command_breaks_a_limit_and_silence_is_followed_by_a_start(
        facts in facts(),
        blends in any::<bool>(),
        ends in prop_oneof![Just(End::Decelerate), Just(End::Hold), Just(End::Silence)],
        late in prop_oneof![Just(Late::Ignore), Just(Late::Last)],
    ) {
        let spec = GroupSpec {
            blend_ns: if blends { STEP_NS } else { 0 },
            on_stall: ends,
            on_end: ends,
            on_late: late,
            ..group_of(vec![limited()])
        };
        let all = commands_of(&spec, &facts);
        prop_assert_eq!(&commands_of(&spec, &facts), &all, "the same facts give the same bits");
        let mut sent: Vec<f64> = Vec::new();
        for (command, made) in &all {
            let Some(command) = *command else {
                sent.clear();
                continue;
            };
            prop_assert!(made.starts || !sent.is_empty(), "commands begin with a start");
            if made.starts {
                sent.clear();
            }
            let last = sent.last().copied().unwrap_or(command);
            let before = sent.iter().rev().nth(1).copied().unwrap_or(last);
            let moved = command - last;
            let moved_before = last - before;
            prop_assert!(moved.abs() <= 2.0 * 0.004 + 1e-12, "velocity {moved}");
            prop_assert!((moved - moved_before).abs() <= 10.0 * 0.004 * 0.004 + 1e-12);
            prop_assert!(command.abs() <= 3.0 + 1e-9, "position {command}");
            sent.push(command);
        }
    }
}
