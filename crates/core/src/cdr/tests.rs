use super::*;
use proptest::prelude::*;

#[test]
fn what_is_written_is_read_back_with_alignment() {
    let mut writer = Writer::new();
    writer.u8(7);
    writer.u32(0xDEAD_BEEF);
    writer.string("lidar");
    writer.f64(-2.5);
    writer.u16(300);
    writer.u64(1 << 40);
    writer.bytes(&[1, 2, 3]);
    writer.i64(-9);
    let bytes = writer.finish();
    let mut reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.u8(), Ok(7));
    assert_eq!(reader.u32(), Ok(0xDEAD_BEEF));
    assert_eq!(reader.string_bytes(), Ok(&b"lidar"[..]));
    assert_eq!(reader.f64(), Ok(-2.5));
    assert_eq!(reader.u16(), Ok(300));
    assert_eq!(reader.u64(), Ok(1 << 40));
    assert_eq!(reader.bytes(), Ok(&[1u8, 2, 3][..]));
    assert_eq!(reader.i64(), Ok(-9));
    assert!(reader.u8().is_err());
}

#[test]
fn big_endian_messages_are_understood() {
    // std_msgs/Header {stamp: {sec: 1, nanosec: 2}, frame_id: "a"} as CDR_BE
    let bytes = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, b'a', 0];
    let mut reader = Reader::new(&bytes).unwrap();
    assert_eq!((reader.i32(), reader.u32()), (Ok(1), Ok(2)));
    assert_eq!(reader.string_bytes(), Ok(&b"a"[..]));
}

#[test]
fn other_encodings_are_refused() {
    for (found, bytes) in [(0x0007u16, [0u8, 7, 0, 0]), (0x0100, [1, 0, 0, 0])] {
        assert_eq!(Reader::new(&bytes).err(), Some(CdrError::Encapsulation { found }));
    }
}

#[test]
fn a_declared_length_beyond_the_end_is_an_error_not_an_allocation() {
    let mut writer = Writer::new();
    writer.u32(u32::MAX);
    let bytes = writer.finish();
    assert!(Reader::new(&bytes).unwrap().bytes().is_err());
    assert!(Reader::new(&bytes).unwrap().string_bytes().is_err());
    assert!(Reader::new(&bytes).unwrap().f64_sequence().is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let Ok(mut reader) = Reader::new(&bytes) else { return Ok(()) };
        while reader.string_bytes().is_ok() && reader.f64_sequence().is_ok() {
            let _ = (reader.u8(), reader.u16());
        }
    }
}
