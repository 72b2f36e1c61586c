use super::*;
use r2r_rcl::{rcutils_uint8_array_fini, rcutils_uint8_array_resize};

/// Writes a message as the middleware does when one is taken.
fn write(message: &mut SerializedMessage, bytes: &[u8]) {
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
    let mut again = SerializedMessage::from(message.into_bytes());
    assert_eq!(again.fill(|_| Ok(false)), Ok(false));
    assert!(again.is_empty() && again.as_ptr() == place);
}

#[test]
fn rcl_may_free_the_buffer_or_ask_for_too_much() {
    let mut message = SerializedMessage::from(vec![1, 2, 3]);
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
