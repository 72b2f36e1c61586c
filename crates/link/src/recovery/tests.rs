use super::*;

const LOOK: Duration = Duration::from_millis(125);

/// Looks for some seconds, while each input that `sends` names gets a message between two looks. Returns
/// the seconds after which a connection was due.
struct Run {
    recovery: Recovery,
    now: Instant,
    inputs: Vec<Heard>,
}

impl Run {
    fn new(inputs: usize) -> Self {
        let inputs = vec![Heard::default(); inputs];
        Run { recovery: Recovery::default(), now: Instant::now(), inputs }
    }

    fn looks(&mut self, seconds: u32, sends: impl Fn(usize, u32) -> bool) -> Vec<(f64, Due)> {
        let (began, mut due) = (self.now, Vec::new());
        for look in 0..8 * seconds {
            self.now += LOOK;
            for (at, input) in self.inputs.iter_mut().enumerate() {
                input.messages += u64::from(sends(at, look));
            }
            let found = self.recovery.look(self.now, &self.inputs, false);
            due.extend(found.map(|due| ((self.now - began).as_secs_f64(), due)));
        }
        due
    }

    fn stand_still(&mut self) {
        assert_eq!(self.stand_still_for(5), Some(Due::StoodStill));
    }

    fn stand_still_for(&mut self, seconds: u64) -> Option<Due> {
        self.now += Duration::from_secs(seconds);
        self.recovery.look(self.now, &self.inputs, true)
    }

    /// The node begins to work, and these inputs have a publisher.
    fn activate(&mut self, has_publisher: &[bool]) {
        let input = |has_publisher: &bool| Heard { messages: 0, has_publisher: *has_publisher };
        self.inputs = has_publisher.iter().map(input).collect();
        self.recovery.watch_others(self.now);
    }

    fn deactivate(&mut self) {
        self.activate(&[]);
    }
}

fn silent(inputs: &[usize]) -> Due {
    Due::Silent(inputs.to_vec())
}

#[test]
fn without_a_standstill_no_silence_is_a_reason() {
    let mut run = Run::new(2);
    assert_eq!(run.looks(10, |_, _| true), []);
    assert_eq!(run.looks(600, |at, _| at == 0), []);
    // Bursts.
    assert_eq!(run.looks(600, |_, look| look % 96 < 8), []);
}

#[test]
fn after_a_standstill_attempts_follow_while_a_regular_input_is_silent() {
    let mut run = Run::new(3);
    // The second input comes once in a while.
    run.looks(20, |at, look| at != 1 || look % 80 == 0);
    run.stand_still();
    let due = run.looks(60, |at, _| at == 2);
    assert_eq!(due, [(4.0, silent(&[0])), (8.0, silent(&[0])), (16.0, silent(&[0]))]);
    // Another standstill may have another cause.
    run.looks(5, |at, _| at != 1);
    run.stand_still();
    assert_eq!(
        run.looks(60, |at, _| at == 0),
        [(4.0, silent(&[2])), (8.0, silent(&[2])), (16.0, silent(&[2]))]
    );
}

#[test]
fn an_input_that_is_heard_again_ends_the_attempts() {
    let mut run = Run::new(1);
    run.looks(10, |_, _| true);
    run.stand_still();
    assert_eq!(run.looks(6, |_, look| look > 34), [(4.0, silent(&[0]))]);
    assert_eq!(run.looks(60, |_, look| look < 16), []);
}

#[test]
fn messages_that_waited_during_the_standstill_do_not_hide_it() {
    let mut run = Run::new(1);
    run.looks(10, |_, _| true);
    run.stand_still();
    assert_eq!(run.looks(5, |_, look| look < 6), [(4.0, silent(&[0]))]);
}

#[test]
fn an_input_that_is_silent_since_an_earlier_standstill_is_still_regular() {
    let mut run = Run::new(1);
    run.looks(10, |_, _| true);
    run.stand_still();
    run.looks(1, |_, _| false);
    assert_eq!(run.stand_still_for(2), None, "too soon after the first connection");
    assert_eq!(run.looks(5, |_, _| false), [(4.0, silent(&[0]))]);
}

#[test]
fn a_clock_that_begins_to_run_changes_nothing() {
    let mut run = Run::new(1);
    run.looks(10, |_, _| true);
    run.stand_still();
    run.inputs.push(Heard::default());
    assert_eq!(run.looks(60, |at, _| at == 0), []);
}

#[test]
fn a_node_that_is_activated_after_a_standstill_expects_each_publisher() {
    let mut run = Run::new(0);
    run.stand_still();
    assert_eq!(run.looks(3, |_, _| false), []);
    run.activate(&[true, false, true]);
    // The first attempt waits until the inputs could have been heard.
    let due = run.looks(60, |_, _| false);
    let all = || silent(&[0, 2]);
    assert_eq!(due, [(2.0, all()), (6.0, all()), (13.0, all())]);
    run.deactivate();
    run.activate(&[true]);
    assert_eq!(run.looks(60, |_, _| false), [], "the attempts are over");
}

/// Such as latched frames, which come once, beside a camera.
#[test]
fn an_input_that_is_heard_shows_that_an_activated_node_is_connected() {
    let mut run = Run::new(0);
    run.stand_still();
    run.activate(&[true, true]);
    assert_eq!(run.looks(60, |at, look| at == 1 || look == 2), []);
}

#[test]
fn the_attempts_go_on_after_a_transition() {
    let mut run = Run::new(1);
    run.looks(10, |_, _| true);
    run.stand_still();
    assert_eq!(run.looks(5, |_, _| false), [(4.0, silent(&[0]))]);
    run.deactivate();
    assert_eq!(run.looks(1, |_, _| false), []);
    run.activate(&[true]);
    assert_eq!(run.looks(60, |_, _| false), [(2.0, silent(&[0])), (10.0, silent(&[0]))]);
}

#[test]
fn a_standstill_of_long_ago_is_no_reason_after_a_transition() {
    let mut run = Run::new(0);
    run.stand_still();
    run.looks(17, |_, _| false);
    run.activate(&[true]);
    assert_eq!(run.looks(60, |_, _| false), []);
}

#[test]
fn a_transition_brings_no_connection_closer_to_the_one_before() {
    let mut run = Run::new(1);
    run.stand_still();
    run.deactivate();
    run.looks(1, |_, _| false);
    assert_eq!(run.stand_still_for(2), None);
}
