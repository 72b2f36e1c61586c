use super::*;
use robocache_testing::ended;
use robocache_testing::threads::ThreadNumber;

fn message(input: usize, byte: u8) -> Message {
    let input = InputId::new(input);
    let arrival = Arrival::default();
    Message { input, publisher: None, number: 0, again: false, bytes: Box::new([byte]), arrival }
}

/// The input and the byte of a message.
fn content(message: &Message) -> (usize, u8) {
    (message.input.index(), (*message.bytes).as_ref()[0])
}

/// Waits for a message of a free lane and takes the oldest; `None` if the queue is closed.
fn take(queue: &Queue) -> Option<Taken<'_>> {
    loop {
        match queue.take() {
            Found::Work(taken) => return Some(taken),
            Found::Nothing => queue.wait(None),
            Found::Closed => return None,
        }
    }
}

#[test]
fn overload_drops_the_oldest_message_of_the_input_that_is_too_fast() {
    let queue = Queue::new(2, vec![0, 1], TimeSource::real());
    let put = |input, byte| queue.put(message(input, byte)).as_ref().map(content);
    assert_eq!(put(0, 1), None);
    assert_eq!(put(1, 2), None);
    assert_eq!(put(0, 3), None);
    assert_eq!(put(0, 4), Some((0, 1)));
    let left = [(); 3].map(|()| content(&take(&queue).unwrap().message).1);
    assert_eq!(left, [2, 3, 4]);
}

#[test]
fn messages_that_were_put_back_leave_first_and_are_not_dropped_for_newer_ones() {
    let queue = Queue::new(1, vec![0], TimeSource::real());
    queue.put_back(vec![message(0, 1), message(0, 2)]);
    assert!(queue.put(message(0, 3)).is_none());
    assert_eq!(queue.put(message(0, 4)).as_ref().map(content), Some((0, 3)));
    let left = [(); 3].map(|()| content(&take(&queue).unwrap().message).1);
    assert_eq!(left, [1, 2, 4]);
    queue.put_back(vec![message(0, 5)]);
    assert_eq!(queue.remove_before(Epoch::default().next(None)).len(), 1);
}

#[test]
fn while_a_worker_has_a_message_of_a_lane_the_others_of_it_wait() {
    // Inputs 0 and 2 are of one stream.
    let queue = Queue::new(4, vec![0, 1, 0], TimeSource::real());
    for (input, byte) in [(0, 1), (2, 2), (0, 3), (1, 4)] {
        assert!(queue.put(message(input, byte)).is_none());
    }
    let take = || take(&queue).unwrap();
    let slow = take();
    let other = take();
    assert_eq!((content(&slow.message), content(&other.message)), ((0, 1), (1, 4)));
    drop(other);
    let reader = ThreadNumber::default();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            reader.is_this();
            take()
        });
        reader.until_asleep();
        assert!(!waiting.is_finished());
        drop(slow);
        assert_eq!(content(&ended("the reader", waiting).message), (2, 2));
    });
    assert_eq!(content(&take().message), (0, 3));
}

#[test]
fn messages_of_earlier_epochs_are_removed() {
    let queue = Queue::new(2, vec![0], TimeSource::real());
    let epoch = Epoch::default().next(None);
    queue.put(message(0, 1));
    queue.put(Message { arrival: Arrival { epoch, ..Arrival::default() }, ..message(0, 2) });
    let past: Vec<_> = queue.remove_before(epoch).iter().map(content).collect();
    assert_eq!(past, [(0, 1)]);
    assert_eq!(content(&take(&queue).unwrap().message), (0, 2));
}

#[test]
fn a_closed_queue_wakes_its_reader() {
    let queue = std::sync::Arc::new(Queue::new(1, vec![], TimeSource::real()));
    let number = std::sync::Arc::new(ThreadNumber::default());
    let reader = std::sync::Arc::clone(&queue);
    let this = std::sync::Arc::clone(&number);
    let thread = std::thread::spawn(move || {
        this.is_this();
        take(&reader).is_none()
    });
    number.until_asleep();
    queue.close();
    assert!(ended("the reader", thread));
}
