use super::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// A camera at 30 Hz whose core needs `core` and whose GPU needs `gpu`, in a model of one
/// message after the other.
struct Camera {
    chooser: Chooser,
    now_ns: u64,
    /// When the GPU will be done, and when it began.
    gpu_busy: Option<(u64, u64)>,
    /// Messages that the GPU was given.
    given: u32,
}

impl Camera {
    fn new() -> Self {
        Camera { chooser: Chooser::default(), now_ns: 0, gpu_busy: None, given: 0 }
    }

    /// A message; returns the plan and how long the row took.
    fn message(&mut self, core: u64, gpu: u64) -> (Decision, u64) {
        self.now_ns += 33 * MS;
        let now = self.now_ns;
        if let Some((_, until)) = self.gpu_busy
            && until <= now
        {
            let (since, until) = self.gpu_busy.take().unwrap();
            self.chooser.took(Processor::Gpu, until - since, now);
        }
        let state = self.gpu_busy.map_or(Gpu::Idle, |(since, _)| Gpu::Busy { since_ns: since });
        let plan = self.chooser.plan(now, state);
        let row = match plan {
            Decision::Core | Decision::Leave => core,
            Decision::Both => core.min(gpu),
            Decision::Gpu { patience_ns } if gpu <= patience_ns => gpu,
            Decision::Gpu { patience_ns } => (patience_ns + core).min(gpu),
        };
        if let Decision::Both | Decision::Gpu { .. } = plan {
            self.given += 1;
            if gpu < 33 * MS {
                self.chooser.took(Processor::Gpu, gpu, now + gpu);
            } else {
                self.gpu_busy = Some((now, now.saturating_add(gpu)));
            }
        }
        let overtaken = match plan {
            Decision::Core | Decision::Leave => false,
            Decision::Both => gpu < core,
            Decision::Gpu { patience_ns } => gpu <= patience_ns + core,
        };
        if !overtaken {
            self.chooser.took(Processor::Cpu, core, now + row);
        }
        (plan, row)
    }

    fn uses_gpu(&self) -> bool {
        self.chooser.in_use() == Processor::Gpu
    }

    /// Messages of the same times.
    fn messages(&mut self, count: usize, core: u64, gpu: u64) -> Vec<(Decision, u64)> {
        (0..count).map(|_| self.message(core, gpu)).collect()
    }
}

#[test]
fn a_faster_gpu_is_used_after_few_messages() {
    let mut camera = Camera::new();
    let first = camera.messages(8, 600 * US, 200 * US);
    assert_eq!([first[0].0, first[3].0], [Decision::Core, Decision::Both]);
    assert!(camera.uses_gpu(), "{first:?}");
    let later = camera.messages(2000, 600 * US, 200 * US);
    let on_gpu = later.iter().filter(|(plan, _)| matches!(plan, Decision::Gpu { .. })).count();
    assert!(on_gpu >= 1850, "{on_gpu} of 2000");
    assert!(later.iter().all(|(_, row)| *row <= 600 * US));
}

#[test]
fn a_gpu_that_is_as_fast_or_slower_is_not_used_and_is_probed_the_more_rarely_the_worse_it_is() {
    let given = |gpu: u64| {
        let mut camera = Camera::new();
        camera.messages(20, 600 * US, gpu);
        camera.given = 0;
        let rows = camera.messages(3000, 600 * US, gpu);
        assert!(!camera.uses_gpu());
        // A shadow makes no row later.
        assert!(rows.iter().all(|(_, row)| *row <= 600 * US));
        camera.given
    };
    // 3,000 messages are 99 s: one probe a second, every 2 s, every 32 s.
    let equal = given(600 * US);
    let twice = given(1200 * US);
    let much_worse = given(50 * MS);
    assert!((85..=100).contains(&equal), "{equal}");
    assert!((40..=50).contains(&twice), "{twice}");
    assert!((2..=4).contains(&much_worse), "{much_worse}");
}

#[test]
fn a_gpu_that_gets_slow_is_given_up_within_few_messages_and_no_row_is_late_by_more_than_a_core() {
    let core = 600 * US;
    let fast = 200 * US;
    let slow = 50 * MS;
    let mut camera = Camera::new();
    camera.messages(100, core, fast);
    assert!(camera.uses_gpu());
    let rows = camera.messages(12, core, slow);
    assert!(!camera.uses_gpu(), "{rows:?}");
    let taken_over = rows.iter().filter(|(plan, _)| matches!(plan, Decision::Gpu { .. })).count();
    assert!((1..=4).contains(&taken_over), "{rows:?}");
    assert!(rows.iter().all(|(_, row)| *row <= 2 * core), "{rows:?}");
    let rows = camera.messages(1000, core, slow);
    assert!(rows.iter().all(|(_, row)| *row == core));
}

#[test]
fn one_slow_message_changes_nothing() {
    let mut camera = Camera::new();
    camera.messages(100, 600 * US, 200 * US);
    camera.message(600 * US, 20 * MS);
    camera.messages(3, 600 * US, 200 * US);
    assert!(camera.uses_gpu());
}

#[test]
fn a_gpu_that_recovers_is_used_again() {
    let core = 600 * US;
    let fast = 200 * US;
    let slow = 50 * MS;
    let mut camera = Camera::new();
    camera.messages(100, core, fast);
    camera.messages(2000, core, slow);
    assert!(!camera.uses_gpu());
    // The next probe is at most 32 s away, and two more decide.
    let recovered = camera.messages(32 * 30 + 40, core, fast);
    assert!(camera.uses_gpu());
    let both = recovered.iter().filter(|(plan, _)| *plan == Decision::Both).count();
    assert!(both <= 4, "{both}");
}

#[test]
fn a_core_that_becomes_faster_is_used_again() {
    let mut camera = Camera::new();
    camera.messages(100, 6 * MS, MS);
    assert!(camera.uses_gpu());
    // Small images from now on.
    camera.messages(32 * 30, 100 * US, MS);
    assert!(!camera.uses_gpu());
}

#[test]
fn a_gpu_that_is_busy_for_too_long_hangs() {
    let mut chooser = Chooser::default();
    let busy = Gpu::Busy { since_ns: S };
    let mut plan = |now_ns| chooser.plan(now_ns, busy);
    assert_eq!([plan(2 * S), plan(5 * S)], [Decision::Core, Decision::Core]);
    // Noticed, but this process may have been stopped as well.
    assert_eq!([plan(6 * S), plan(6 * S + 400 * MS)], [Decision::Core, Decision::Core]);
    assert_eq!(plan(6 * S + 500 * MS), Decision::Leave);
}

#[test]
fn a_process_that_was_stopped_does_not_take_its_gpu_for_a_hanging_one() {
    let mut chooser = Chooser::default();
    assert_eq!(chooser.plan(100 * S, Gpu::Busy { since_ns: S }), Decision::Core);
    // Shortly after, the GPU is done.
    assert_eq!(chooser.plan(100 * S + 33 * MS, Gpu::Idle), Decision::Core);
    let busy = Gpu::Busy { since_ns: 101 * S };
    assert_eq!(chooser.plan(102 * S, busy), Decision::Core);
    assert_eq!(chooser.plan(106 * S, busy), Decision::Core);
}
