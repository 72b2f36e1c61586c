use super::*;
use std::sync::Arc;

use r2r_rcl::{rcutils_uint8_array_fini, rcutils_uint8_array_resize};

/// Writes a message as the middleware does when one is taken.
fn write<P: DerefMut<Target = [u8]>>(message: &mut SerializedMessage<P>, bytes: &[u8]) {
    // SAFETY: `fill` gives a valid array, and the copy begins when it has room for all bytes.
    let written = message.fill(|array| unsafe {
        if (*array).buffer_capacity < bytes.len() {
            assert_eq!(rcutils_uint8_array_resize(array, bytes.len()), 0);
        }
        (*array).buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        (*array).buffer_length = bytes.len();
        Ok(true)
    });
    assert_eq!(written, Ok(true));
    assert_eq!(&message[..], bytes);
}

#[test]
fn the_buffer_grows_and_is_used_again() {
    let mut message = SerializedMessage::default();
    write(&mut message, b"one");
    write(&mut message, &vec![7; 1 << 20]);
    let place = message.as_ptr();
    write(&mut message, b"three");
    assert_eq!(message.as_ptr(), place);
    let Memory::Vec(bytes) = message.into_memory() else { panic!("expected a Vec") };
    let mut again = SerializedMessage::<Box<[u8]>>::from(bytes);
    assert_eq!(again.fill(|_| Ok(false)), Ok(false));
    assert!(again.is_empty() && again.as_ptr() == place);
}

#[test]
fn rcl_may_free_the_buffer_or_ask_for_too_much() {
    let mut message = SerializedMessage::<Box<[u8]>>::from(vec![1, 2, 3]);
    // SAFETY: `fill` gives a valid array.
    let emptied = message.fill(|array| unsafe {
        assert_ne!(rcutils_uint8_array_resize(array, usize::MAX), 0);
        assert_eq!(rcutils_uint8_array_fini(array), 0);
        Ok(true)
    });
    assert_eq!(emptied, Ok(true));
    assert!(message.is_empty());
    write(&mut message, b"after");
}

/// A place, and what counts its owners.
struct CountedPlace {
    bytes: Box<[u8]>,
    _owner: Arc<()>,
}

impl CountedPlace {
    fn new(owners: &Arc<()>) -> Self {
        CountedPlace { bytes: vec![9; 100].into(), _owner: Arc::clone(owners) }
    }
}

impl Deref for CountedPlace {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for CountedPlace {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[test]
fn a_message_is_taken_into_a_place_while_it_has_room() {
    let owners = Arc::new(());
    let mut message = SerializedMessage::in_place(CountedPlace::new(&owners));
    assert!(message.is_empty());
    write(&mut message, &[1; 100]);
    write(&mut message, b"two");
    // SAFETY: `fill` gives a valid array.
    let grown = message.fill(|array| unsafe {
        assert_eq!((*array).buffer_capacity, 100);
        assert_eq!(Arc::strong_count(&owners), 2);
        assert_eq!(rcutils_uint8_array_resize(array, 200), 0);
        // What was in the place comes along, and the place is free.
        assert_eq!(Arc::strong_count(&owners), 1);
        (*array).buffer_length = 100;
        Ok(true)
    });
    assert_eq!(grown, Ok(true));
    assert_eq!(&message[..4], [b't', b'w', b'o', 1]);
    assert!(matches!(message.into_memory(), Memory::Vec(bytes) if bytes.capacity() >= 200));

    let mut message = SerializedMessage::in_place(CountedPlace::new(&owners));
    write(&mut message, b"three");
    let Memory::Place(place, len) = message.into_memory() else { panic!("expected the place") };
    assert_eq!(&place[..len], b"three");
    // SAFETY: as above.
    let emptied = SerializedMessage::in_place(place).fill(|array| unsafe {
        assert_eq!(rcutils_uint8_array_fini(array), 0);
        Ok(true)
    });
    assert_eq!((emptied, Arc::strong_count(&owners)), (Ok(true), 1));

    let mut message = SerializedMessage::in_place(CountedPlace::new(&owners));
    // SAFETY: as above.
    let refused = message.fill(|array| unsafe {
        // This frees what the array had.
        assert_ne!(rcutils_uint8_array_resize(array, usize::MAX), 0);
        Ok(false)
    });
    assert_eq!((refused, Arc::strong_count(&owners)), (Ok(false), 1));
    write(&mut message, b"four");
}
