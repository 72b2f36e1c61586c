use super::*;

#[test]
fn memory_is_zero_and_in_pages_of_its_own() {
    for len in [0, 1, 4095, 4096, 4097, 1 << 20] {
        let mut buffer = HostBuffer::new(len);
        assert_eq!((buffer.len(), buffer.as_ptr() as usize % *PAGE), (len, 0));
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(7);
        assert!(buffer.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn too_much_memory_is_none() {
    for len in [1 << 60, isize::MAX as usize, usize::MAX - *PAGE, usize::MAX] {
        assert!(HostBuffer::try_new(len).is_none());
    }
}
