//! Seeds from what the node writes: tensors, their info, and recordings.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::messages::{Image, WrenchStamped};
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::Publication;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::rejected::DropReason;
use robocache_core::schema::Prefixes;
use robocache_core::spec::{InputId, StreamId};
use robocache_data::bag::Bag;
use robocache_data::recording::{Gap, Manifest, McapRecorder, RecordOptions, RecordingEvent};
use robocache_ops::time::{Epoch, Stamp};
use robocache_runtime::{
    ClockMessage, Event, MessageOutcome, ReceivedMessage, Recorder, TickFate, TickRecord,
    TimeSource,
};

use super::records::{self, START};
use super::{recording, streams};

const MS: i64 = 1_000_000;

/// A byte for the kind, and a message.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let pipeline = streams::pipeline();
    let mut tensor = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(streams::STAMP);
    pipeline.tick(tick, Epoch::default(), &mut tensor).expect("a tick");
    tensor.seal();
    let publication =
        Publication { stamp: streams::STAMP, topics: &[], digest: true, backend: "cpu" };
    let mut all = vec![
        [&[0][..], tensor.message()].concat(),
        [&[1][..], &pipeline.info(&publication)].concat(),
    ];
    all.extend(events().iter().map(|event| [&[2][..], &event.write()].concat()));
    all
}

fn events() -> Vec<RecordingEvent> {
    let input = InputId::new(1);
    let number = 7;
    let at = Some(streams::STAMP);
    let epoch = Epoch::numbered(2);
    let outcome =
        |outcome| RecordingEvent::Node(Event::MessageOutcome { number, input, outcome, at });
    let tick =
        |fate| RecordingEvent::Node(Event::Tick(TickRecord { tick: 500, epoch, changes: 9, fate }));
    vec![
        RecordingEvent::Start { at },
        RecordingEvent::Received { number, input, arrival: Arrival::default(), bytes_of: number },
        outcome(MessageOutcome::Taken { stamp: at, changes: Some((1, 2)) }),
        outcome(MessageOutcome::Dropped(DropReason::Late)),
        outcome(MessageOutcome::Waits),
        tick(TickFate::Published { digest: Some(3) }),
        tick(TickFate::HeldBack(StreamId::new(1))),
        tick(TickFate::Unsent),
        RecordingEvent::Node(Event::Overruns { before: 501, ticks: 2 }),
        RecordingEvent::Node(Event::Epoch(epoch)),
        RecordingEvent::Gap(Gap { input, messages: 2, first: 3, last: 5, from: at, epoch }),
        RecordingEvent::GapOfEvents { events: 4, from: at },
        RecordingEvent::End,
    ]
}

/// A byte for the clock, and the messages of a recording of 150 ms.
///
/// # Panics
/// If the recorder leaves something out.
pub(crate) fn recordings() -> Vec<Vec<u8>> {
    [false, true]
        .map(|simulated| [&[u8::from(simulated)][..], &recorded(simulated)].concat())
        .into()
}

fn recorded(simulated: bool) -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("robocache_seed_{}", std::process::id()));
    let config = config::parse(recording::CONFIG, "fuzz.yaml").expect("a configuration");
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).expect("a backend"));
    let options = RecordOptions::new(
        &folder,
        Manifest::of(&config, simulated, true, "cpu"),
        TimeSource::real(),
    );
    let now = Some(Stamp::from_nanos(START));
    let recorder = McapRecorder::start(options, &config, &Prefixes::default(), now);
    let recorder = recorder.expect("a recorder");
    live(&Pipeline::new(config, backend).expect("a pipeline"), &recorder, simulated);
    recorder.finish();
    let records = records_of(&recorder.folder());
    fs::remove_dir_all(folder).expect("the folder");
    records
}

/// Messages and ticks, as a node has them.
fn live(pipeline: &Pipeline, recorder: &McapRecorder, simulated: bool) {
    let epoch = Epoch::default();
    for k in 0..15 {
        let at = Stamp::from_nanos(START + 10 * k * MS);
        if simulated {
            recorder.clock_set(ClockMessage { stamp: at, at, published: None });
        }
        for (input, bytes) in
            [wrench(at), wrench(at.offset(-3 * MS)), image(at)].into_iter().enumerate()
        {
            let input = InputId::new(input);
            let arrival = Arrival { stamp: Some(at), epoch, ..Arrival::default() };
            let pushed = pipeline.push(input, &bytes, arrival).expect("a good message");
            let outcome = MessageOutcome::from(&pushed);
            let bytes = Arc::new(bytes);
            let number =
                recorder.received(ReceivedMessage { input, bytes, arrival, at, published: None });
            recorder.note(Event::MessageOutcome { number, input, outcome, at: Some(at) });
        }
        let mut message = pipeline.new_message();
        let tick = pipeline.config().grid.tick_at(at);
        pipeline.tick(tick, epoch, &mut message).expect("a tick");
        message.seal();
        let fate = TickFate::Published { digest: message.digest() };
        recorder.note(Event::Tick(TickRecord { tick, epoch, changes: message.changes(), fate }));
    }
}

fn wrench(stamp: Stamp) -> Vec<u8> {
    let force = [1.0, 2.0, 3.0];
    let torque = [4.0, 5.0, 6.0];
    WrenchStamped { stamp, frame_id: "", force, torque }.to_cdr(Vec::new())
}

fn image(stamp: Stamp) -> Vec<u8> {
    let image = Image { stamp, frame_id: "", height: 4, width: 4, encoding: "rgb8", step: 12 };
    image.to_cdr(Vec::new(), |data| data.extend(0..48))
}

/// The messages of a bag on the topics of a recording, a millisecond apart.
fn records_of(folder: &Path) -> Vec<u8> {
    let bag = Bag::open(folder).expect("a bag");
    let topics = recording::topics();
    let messages = bag.messages(&vec![true; bag.topics.len()]).expect("messages");
    let records = messages.map(|message| {
        let name = &bag.topics[message.topic].name;
        let place = topics.iter().position(|(topic, ..)| topic == name).expect("a known topic");
        (place as u8, 1, message.bytes.to_vec())
    });
    let records: Vec<_> = records.collect();
    assert!(records.len() > 100, "expected a whole recording, found {} messages", records.len());
    records::write(&records)
}
