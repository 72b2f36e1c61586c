use super::*;

#[test]
fn every_event_is_read_as_it_was_written() {
    let input = InputId::new(3);
    let epoch = Epoch::numbered(2);
    let at = Some(Stamp::from_nanos(-7));
    let arrival = Arrival {
        stamp: at,
        received: Some(Stamp::from_nanos(-9)),
        epoch,
        max_ahead_ns: 5,
        in_doubt_from: Some(Stamp::from_nanos(-8)),
        zero_is_an_instant: true,
        seen_from: None,
    };
    let outcome = |outcome| Event::MessageOutcome { number: 9, input, outcome, at };
    let tick = |fate| Event::Tick(TickRecord { tick: -4, epoch, changes: 11, fate });
    let gap = Gap { input, messages: 2, first: 5, last: 8, from: None, epoch };
    let events = [
        outcome(MessageOutcome::Taken { stamp: at, changes: Some((3, 4)) }),
        outcome(MessageOutcome::Taken { stamp: None, changes: None }),
        outcome(MessageOutcome::Dropped(DropReason::Overload)),
        outcome(MessageOutcome::Waits),
        tick(TickFate::Published { digest: Some(77) }),
        tick(TickFate::Published { digest: None }),
        tick(TickFate::HeldBack(StreamId::new(1))),
        tick(TickFate::Unsent),
        Event::Overruns { before: 5, ticks: 6 },
        Event::Epoch(epoch),
    ];
    let others = [
        RecordingEvent::Start { at: None },
        RecordingEvent::Received { number: 9, input, arrival, bytes_of: 8 },
        RecordingEvent::Gap(gap),
        RecordingEvent::GapOfEvents { events: 3, from: at },
        RecordingEvent::Mark(Mark { at_ns: Some(7), name: "success".into(), value: "no".into() }),
        RecordingEvent::Mark(Mark { at_ns: None, name: "n".into(), value: String::new() }),
        RecordingEvent::End,
    ];
    for event in events.map(RecordingEvent::Node).into_iter().chain(others) {
        assert_eq!(RecordingEvent::read(&event.write()).unwrap(), event);
    }
}

#[test]
fn an_event_that_no_recorder_writes_is_an_error() {
    let whole = RecordingEvent::End.write();
    let before = RecordingEvent::End.fields().write_to_reason().finish().len();
    for len in 0..before {
        assert!(RecordingEvent::read(&whole[..len]).is_err());
    }
    let unknown = Fields { kind: 99, ..Fields::default() };
    let error = RecordingEvent::read(&unknown.write()).unwrap_err().to_string();
    assert_eq!(error, "expected the kind of an event, found 99");
    let unknown = Fields { kind: DROPPED, reason: "whim".into(), ..Fields::default() };
    let error = RecordingEvent::read(&unknown.write()).unwrap_err().to_string();
    assert_eq!(error, "expected the name of a reason, found 'whim'");
}

#[test]
fn a_recorder_that_did_not_tell_from_when_a_stamp_is_in_doubt_meant_all_stamps() {
    let of = |max_ahead_ns: i64| {
        let stamp = Some(Stamp::ZERO);
        let fields = Fields { kind: RECEIVED, stamp, max_ahead_ns, ..Fields::default() };
        match RecordingEvent::read(&fields.write_to_reason().finish()).unwrap() {
            RecordingEvent::Received { arrival, .. } => arrival,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(of(MAX_AHEAD_NS - 1).in_doubt_from, Some(Stamp::MIN));
    // Then a second was allowed to every stream.
    assert_eq!(of(MAX_AHEAD_NS).in_doubt_from, None);
    assert_eq!(of(MAX_AHEAD_NS).max_ahead_ns, MAX_AHEAD_NS);
}
