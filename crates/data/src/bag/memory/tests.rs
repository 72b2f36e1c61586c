use super::*;

#[test]
fn a_buffer_is_used_again_when_its_last_slice_is_dropped() {
    let memory = FreeBuffers::default();
    let mut buffer = memory.buffer(1000);
    buffer.bytes_mut().fill(7);
    let place = buffer.as_ref().as_ptr();
    let whole = buffer.share();
    let slice = whole.slice(10..20);
    drop(whole);
    assert_ne!(memory.buffer(1000).as_ref().as_ptr(), place, "a slice is in use");
    assert_eq!(slice, [7; 10].as_slice());
    drop(slice);
    assert_eq!(memory.buffer(900).as_ref().as_ptr(), place);
    assert_eq!(memory.buffer(900).as_ref().len(), 900);
}

#[test]
fn little_is_kept() {
    let memory = FreeBuffers::default();
    drop(memory.buffer(MOST_FREE_BYTES + 1));
    assert!(memory.0.take(|_| true).is_none());
    let many: Vec<_> = (0..100).map(|_| memory.buffer(1 << 20)).collect();
    drop(many);
    let free: Vec<_> = std::iter::from_fn(|| memory.0.take(|_| true)).collect();
    let bytes = free.iter().map(Vec::len).sum::<usize>();
    assert!(bytes <= MOST_FREE_BYTES && free.len() > 20, "{bytes} of {}", free.len());
}

#[test]
fn a_large_buffer_is_not_used_for_little() {
    let memory = FreeBuffers::default();
    drop(memory.buffer(8_000_000));
    let small: Vec<_> = (0..100).map(|_| memory.buffer(100)).collect();
    assert!(small.iter().all(|buffer| buffer.bytes.len() <= 200));
    drop(small);
    // The newest that fits, among many that do not.
    assert_eq!(memory.buffer(7_000_000).bytes.len(), 10_000_000);
}
