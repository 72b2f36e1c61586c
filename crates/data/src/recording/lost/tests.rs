use super::*;

fn arrival(epoch: u64, nanos: Option<i64>) -> Arrival {
    let stamp = nanos.map(Stamp::from_nanos);
    Arrival { stamp, epoch: Epoch::numbered(epoch), ..Arrival::default() }
}

#[test]
fn what_was_lost_is_one_gap_until_it_is_taken() {
    let lost = Lost::default();
    let input = InputId::new(2);
    assert_eq!(lost.take(input), None);
    lost.add(7, arrival(1, Some(70)));
    lost.add(5, arrival(1, Some(50)));
    let from = Some(Stamp::from_nanos(50));
    let messages = 2;
    let first = 5;
    let last = 7;
    let epoch = Epoch::numbered(1);
    assert_eq!(lost.take(input), Some(Gap { input, messages, first, last, from, epoch }));
    assert_eq!(lost.take(input), None);
    // Of two epochs, and one whose arrival is unknown.
    for second in [arrival(2, Some(5)), arrival(1, None)] {
        lost.add(8, arrival(1, Some(80)));
        lost.add(9, second);
        let gap = lost.take(input).unwrap();
        assert_eq!((gap.first, gap.from, gap.epoch), (8, None, Epoch::numbered(1)));
    }
}

#[test]
fn nothing_is_lost_twice_or_forgotten_while_threads_add() {
    const EACH: u64 = 20_000;
    let lost = Lost::default();
    let taken = std::thread::scope(|scope| {
        let adding: Vec<_> = (0..3)
            .map(|thread| {
                let lost = &lost;
                let add = move |k| lost.add(thread * EACH + k + 1, arrival(0, Some(1)));
                scope.spawn(move || (0..EACH).for_each(add))
            })
            .collect();
        let mut taken = 0;
        while adding.iter().any(|thread| !thread.is_finished()) {
            let gap = lost.take(InputId::new(0));
            taken += gap.map_or(0, |gap| {
                assert!(gap.first <= gap.last && gap.from.is_some(), "{gap:?}");
                gap.messages
            });
        }
        taken
    });
    let rest = lost.take(InputId::new(0)).map_or(0, |gap| gap.messages);
    assert_eq!(taken + rest, 3 * EACH);
}

#[test]
fn the_first_lost_event_has_its_time() {
    let lost = LostEvents::default();
    assert_eq!(lost.take(), None);
    for nanos in [9, 4, 6] {
        lost.add(Stamp::from_nanos(nanos));
    }
    assert_eq!(lost.take(), Some((3, Some(Stamp::from_nanos(4)))));
    assert_eq!(lost.take(), None);
}
