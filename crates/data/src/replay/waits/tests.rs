use super::*;
use robocache_core::pipeline::Arrival;
use robocache_core::spec::InputId;

fn event(epoch: u64, [taken, received]: [i64; 2], bytes_of: u64) -> Vec<u8> {
    let [stamp, received] = [taken, received].map(|ns| Some(Stamp::from_nanos(ns)));
    let epoch = Epoch::numbered(epoch);
    let arrival = Arrival { stamp, received, epoch, ..Arrival::default() };
    let number = 7;
    let input = InputId::new(0);
    RecordingEvent::Received { number, input, arrival, bytes_of }.write()
}

#[test]
fn a_message_has_waited_since_its_receive_stamp_in_the_time_of_the_log() {
    let mut waits = Waits::default();
    let mut of = |at: i64, epoch, [taken, received]: [i64; 2]| {
        waits.note(Stamp::from_nanos(at), &event(epoch, [taken, received], 7));
        at - waits.of(Stamp::from_nanos(at))
    };
    assert_eq!(of(1000, 0, [1000, 990]), 990);
    // The recorder got the report late.
    assert_eq!(of(1020, 0, [1015, 1015]), 1015);
    // The clock was set back by 800, and the log goes on.
    assert_eq!(of(1100, 1, [300, 250]), 1050);
    assert_eq!(of(1130, 1, [320, 310]), 1110);
}

#[test]
fn only_the_message_behind_the_event_has_waited() {
    let mut waits = Waits::default();
    let at = Stamp::from_nanos;
    assert_eq!(waits.of(at(5)), 0, "no event");
    waits.note(at(1000), &event(0, [1000, 900], 7));
    assert_eq!(waits.of(at(1001)), 0, "the bytes are missing");
    waits.note(at(1000), &event(0, [1000, 900], 6));
    assert_eq!(waits.of(at(1000)), 0, "an earlier message has the bytes");
    waits.note(at(1000), &event(0, [1000, 900], 7));
    waits.note(at(1000), &RecordingEvent::End.write());
    assert_eq!(waits.of(at(1000)), 0);
}
