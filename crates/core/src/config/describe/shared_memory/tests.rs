use super::*;

#[test]
fn a_segment_has_room_for_two_messages_and_is_rounded_up() {
    const MIB: usize = 1 << 20;
    assert_eq!(segment_bytes(0), 16 * MIB);
    assert_eq!(segment_bytes(8 * MIB), 16 * MIB);
    assert_eq!(segment_bytes(8 * MIB + 1), 20 * MIB);
    assert_eq!(segment_bytes(24_883_200), 48 * MIB);
    assert_eq!(segment_bytes(1 << 30), 2 << 30);
}
