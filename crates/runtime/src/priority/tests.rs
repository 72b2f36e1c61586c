use super::*;
use std::fs::read_to_string;

/// Reads the scheduling policy (1 is SCHED_FIFO, 0 is SCHED_OTHER) and the niceness from the
/// kernel. They are fields 41 and 19 of the line, counted from 1; field 2 is in parentheses.
fn policy_and_niceness() -> (i64, i64) {
    let stat = read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let field = |n: usize| fields[n - 3].parse().unwrap();
    (field(41), field(19))
}

/// Reads which processors may run the calling thread, as the kernel lists them.
fn allowed_cpus() -> String {
    let status = read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

fn in_a_thread(body: impl FnOnce() + Send + 'static) {
    std::thread::spawn(body).join().unwrap();
}

#[test]
fn a_raised_thread_comes_down_again() {
    in_a_thread(|| {
        let niceness = policy_and_niceness().1;
        let raised = Placement { priority: 20, cpus: vec![] }.apply("ticks run");
        // If the system does not permit it, `apply` returns 0.
        assert_eq!(policy_and_niceness().0, i64::from(raised == 20));
        assert!(lower());
        assert_eq!(policy_and_niceness().0, 0);
        assert!(niceness != 0 || policy_and_niceness().1 == 0);
        assert_eq!(Placement::default().apply("ticks run"), 0);
    });
}

#[test]
fn a_thread_is_pinned_to_processors_that_exist() {
    in_a_thread(|| {
        let before = allowed_cpus();
        Placement { priority: 0, cpus: vec![1023] }.apply("ticks run");
        assert_eq!(allowed_cpus(), before, "the request is refused and the thread goes on");
        let first = before.split([',', '-']).next().unwrap().to_owned();
        assert_eq!(pin(&[first.parse().unwrap(), 1023]), Ok(vec![1023]));
        assert_eq!(allowed_cpus(), first);
    });
}

/// A thread whose ticks take this long, all without a wait.
struct Work {
    overload: Overload,
    now: Instant,
}

impl Work {
    fn serve(&mut self, ticks: u32, each: Duration) -> Vec<Change> {
        let mut serve = |_| {
            let began = self.now;
            self.now += each;
            self.overload.served(began, self.now)
        };
        (0..ticks).filter_map(&mut serve).collect()
    }

    fn rest(&mut self, pause: Duration) -> Option<Change> {
        let change = self.overload.rests(self.now);
        self.now += pause;
        change
    }
}

#[test]
fn only_a_thread_that_works_without_rest_for_a_time_is_overloaded() {
    let mut work = Work { overload: Overload::default(), now: Instant::now() };
    let ms = Duration::from_millis;
    // At 2 kHz, 199 ticks without rest take less than the time.
    for _ in 0..100 {
        assert_eq!(work.serve(199, Duration::from_micros(500)), []);
        assert_eq!(work.rest(ms(1)), None);
    }
    // A process that was stopped.
    assert_eq!(work.serve(1, ms(2000)), []);
    assert_eq!(work.serve(8, ms(1)), []);
    assert_eq!(work.rest(ms(1)), None);
    assert_eq!(work.serve(200, Duration::from_micros(500)), [Change::Lower]);
    assert_eq!(work.serve(1000, ms(1)), [], "it is lowered once");
}

#[test]
fn the_priority_comes_back_after_a_calm_time_that_grows() {
    let mut work = Work { overload: Overload::default(), now: Instant::now() };
    let ms = Duration::from_millis;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(work.serve(100, ms(1)), [Change::Lower]);
        let mut calm = 0;
        while work.rest(ms(9)).is_none() {
            assert_eq!(work.serve(1, ms(1)), []);
            calm += 10;
        }
        assert_eq!(calm / 1000, seconds);
        // The next overload begins before any other calm time.
        work.rest(ms(0));
    }
}
