use super::*;

#[test]
fn a_part_of_the_disk_is_left_free() {
    const GB: u64 = 1 << 30;
    let check = |free, total| Room { free, total }.check();
    // Two percent of a small disk, and a gigabyte of a large one.
    assert!(check(20, 1000).is_ok() && check(GB, 1000 * GB).is_ok());
    assert!(check(19, 1000).is_err());
    let error = check(GB - 1, 1000 * GB).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let expected =
        "No space left on device: 1073 MB are free, and the recording leaves 1073 MB free";
    assert_eq!(error.to_string(), expected);
    let here = OnDisk.room(Path::new(".")).unwrap();
    assert!(here.free <= here.total && here.total > 1 << 20, "{here:?}");
    assert_eq!(OnDisk.room(Path::new("/no/such/folder")), None);
}
