//! Messages during a tick whose backend waits, as it does for a GPU that another process keeps busy.

use std::sync::mpsc::channel;
use std::thread;

use robocache_testing::threads::ThreadNumber;
use robocache_testing::{Finally, received};

use super::hooked::hooked;
use super::*;

#[test]
fn pushes_go_on_while_a_tick_waits_and_none_overwrites_a_row_that_it_reads() {
    let (pipeline, backend) =
        hooked(&one_joint("max_age_ms: 500\nstrategy: hold\nring_rows: 2", ""));
    let (begin, begun) = channel();
    let (go_on, wait) = channel();
    backend.fuse.set(move || {
        begin.send(()).unwrap();
        wait.recv().unwrap();
        Ok(())
    });
    let mut message = pipeline.new_message();
    push_ms(&pipeline, 90).unwrap();
    push_ms(&pipeline, 100).unwrap();
    let pusher = ThreadNumber::default();
    thread::scope(|scope| {
        let _ends = Finally(|| {
            let _ = go_on.send(());
        });
        let tick = scope.spawn(|| pipeline.tick(10, Epoch::default(), &mut message).unwrap());
        received("the middle of the tick", &begun);
        // The tick reads the row of 100 ms, the older of two after the first push. The second push
        // takes it out of the ring, and the third gets its slot.
        let (done, pushed) = channel();
        let pushes = scope.spawn({
            let pipeline = &pipeline;
            let pusher = &pusher;
            move || {
                pusher.is_this();
                for ms in [110, 120, 130] {
                    push_ms(pipeline, ms).unwrap();
                    done.send(ms).unwrap();
                }
            }
        });
        // Neither of them waits for the tick.
        assert_eq!(received("the first push", &pushed), 110);
        assert_eq!(received("the second push", &pushed), 120);
        pusher.until_asleep();
        assert!(pushed.try_recv().is_err(), "a row was overwritten");
        go_on.send(()).unwrap();
        assert_eq!(received("the third push", &pushed), 130);
        pushes.join().unwrap();
        assert_eq!(tick.join().unwrap(), TickOutcome::Ready);
    });
    assert_eq!(values(&pipeline, &message, SEGMENT), [1000.0]);
}
