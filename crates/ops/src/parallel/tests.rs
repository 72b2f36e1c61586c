use super::*;

#[test]
fn every_item_is_done_once_whatever_the_threads() {
    for threads in [0, 1, 2, 5, 100] {
        let mut done = vec![0; 57];
        for_each(done.iter_mut().collect(), threads, || (), |(), item: &mut i32| *item += 1);
        assert!(done.iter().all(|item| *item == 1), "{threads}");
    }
    for_each(Vec::<i32>::new(), 4, || (), |(), _| unreachable!());
}
