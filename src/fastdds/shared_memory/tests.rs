use super::*;

/// A process that owns the ports 7410 and 7411, and writes to 7413. Both kinds of lines are those of a real node.
const MAPS: &str = "\
55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]
7f1c40000000-7f1c40400000 rw-s 00000000 00:2f 41                         /dev/shm/fastrtps_8b1f2a3c4d5e6f70
7f1c50000000-7f1c5000d000 rw-s 00000000 00:2f 42                         /dev/shm/fastrtps_port7410
7f1c50010000-7f1c5001d000 rw-s 00000000 00:2f 43                         /dev/shm/fastrtps_port7411 (deleted)
7f1c50020000-7f1c5002d000 rw-s 00000000 00:2f 44                         /dev/shm/fastrtps_port7413 (deleted)
7f1c60000000-7f1c60001000 r--p 00000000 08:01 45                         /opt/ros/lib/libfastrtps.so.2.14.5
";

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Says where the name of each file of [`MAPS`] leads, if 7411 has been made again.
fn inode_of(path: &Path) -> Option<u64> {
    match path.to_str()? {
        "/dev/shm/fastrtps_8b1f2a3c4d5e6f70" => Some(41),
        "/dev/shm/fastrtps_port7410" => Some(42),
        "/dev/shm/fastrtps_port7411" => Some(50),
        _ => None,
    }
}

/// The ports that are lost, of a process that owns files of these names.
fn lost_of(names: &[&str], maps: &str, inode_of: impl Fn(&Path) -> Option<u64>) -> Vec<LostPort> {
    lost(&owned(names), maps, inode_of).unwrap()
}

#[test]
fn an_own_port_without_its_name_is_lost() {
    let all = ["fastrtps_port7410", "fastrtps_port7411", "fastrtps_8b1f2a3c4d5e6f70"];
    assert_eq!(lost_of(&all, MAPS, inode_of), [LostPort(43)]);
    assert_eq!(lost_of(&all[..2], MAPS, |_| None), [LostPort(42), LostPort(43)]);
}

#[test]
fn if_segments_have_no_name_either_somebody_has_emptied_the_folder() {
    let all = owned(&["fastrtps_port7410", "fastrtps_8b1f2a3c4d5e6f70"]);
    let maps = MAPS.replace("70\n", "70 (deleted)\n");
    let error = lost(&all, &maps, |_| None).unwrap_err().to_string();
    assert!(error.contains("fastrtps_8b1f2a3c4d5e6f70 of this process from /dev/shm"), "{error}");
    assert!(error.ends_with("start the publishers again, then this node"), "{error}");
    // Another process of this name has made it again.
    assert!(lost(&all, &maps, |_| Some(77)).is_err());
    // A segment that is being made has no mapping yet.
    let of_port = ["fastrtps_port7411", "fastrtps_0123456789abcdef"];
    assert_eq!(lost_of(&of_port, &maps, inode_of), [LostPort(43)]);
}

#[test]
fn a_name_that_leads_to_another_port_loses_the_one_before() {
    let ports = ["fastrtps_port7410"];
    assert_eq!(lost_of(&ports, MAPS, |_| Some(42)), []);
    assert_eq!(lost_of(&ports, MAPS, |_| Some(51)), [LostPort(42)]);
}

#[test]
fn a_port_is_found_if_one_of_its_mappings_is() {
    // The process sent to the owner before, whose port has the same name.
    let stale = "7f1c70000000-7f1c7000d000 rw-s 00000000 00:2f 40      /dev/shm/fastrtps_port7410 (deleted)\n";
    let ports = ["fastrtps_port7410"];
    for maps in [format!("{stale}{MAPS}"), format!("{MAPS}{stale}")] {
        assert_eq!(lost_of(&ports, &maps, inode_of), []);
        assert_eq!(lost_of(&ports, &maps, |_| None), [LostPort(40), LostPort(42)]);
    }
}

#[test]
fn ports_of_others_are_no_evidence() {
    assert_eq!(lost_of(&["fastrtps_port7410"], MAPS, inode_of), []);
    assert_eq!(lost_of(&[], MAPS, |_| None), []);
    // 741 is no name of 7411.
    assert_eq!(lost_of(&["fastrtps_port741"], MAPS, |_| None), []);
}

#[test]
fn fast_dds_3_has_other_names() {
    let maps = MAPS.replace("fastrtps", "fastdds");
    assert_eq!(lost_of(&["fastdds_port7411"], &maps, |_| None), [LostPort(43)]);
}

#[test]
fn a_locked_file_tells_who_owns_a_port() {
    let of = |target: &str| owned_by(PathBuf::from(target));
    assert_eq!(of("/dev/shm/fastrtps_port7411_el").as_deref(), Some("fastrtps_port7411"));
    assert_eq!(of("/dev/shm/fastdds_port7411_el (deleted)").as_deref(), Some("fastdds_port7411"));
    assert_eq!(of("/dev/shm/fastrtps_8b1f2a_el").as_deref(), Some("fastrtps_8b1f2a"));
    let others = [
        "/dev/shm/fastrtps_port7400_sl",
        "/dev/shm/fastrtps_port7411",
        "/dev/shm/mine_el",
        "/tmp/fastrtps_port7411_el",
        "socket:[4711]",
    ];
    for other in others {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn a_connection_without_a_segment_is_told() {
    let segments = |of: &[(&str, u64)]| -> BTreeMap<String, u64> {
        of.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
    };
    let first = segments(&[("fastrtps_a", 16 << 20), ("fastrtps_b", 1 << 10)]);
    assert_eq!(lacking_since(&segments(&[]), &first), None, "the first connection");
    let both =
        segments(&[("fastrtps_a", 16 << 20), ("fastrtps_b", 1 << 10), ("fastrtps_c", 16 << 20)]);
    assert_eq!(lacking_since(&first, &both), None);
    let small =
        segments(&[("fastrtps_a", 16 << 20), ("fastrtps_b", 1 << 10), ("fastrtps_d", 1 << 10)]);
    for lacks in [&first, &small] {
        let said = lacking_since(&first, lacks).unwrap();
        assert!(said.contains("expected 16777216 bytes free in /dev/shm"), "{said}");
    }
}

#[test]
fn this_process_has_lost_no_port() {
    assert_eq!(lost_ports().unwrap(), []);
}
