use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

/// The user who runs the test.
fn me() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn words<T: std::fmt::Debug>(refused: Result<T, SharedError>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn a_folder_is_made_that_nobody_else_may_read_or_write() {
    let around = tempfile::tempdir().unwrap();
    let folder = around.path().join("engine");
    check(&folder, me()).unwrap();
    assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
    check(&folder, me()).unwrap();
}

#[test]
fn what_is_no_folder_or_can_be_written_by_others_is_refused() {
    let around = tempfile::tempdir().unwrap();
    let of = |name: &str| around.path().join(name);
    fs::create_dir(of("real")).unwrap();
    symlink(of("real"), of("link")).unwrap();
    write(of("file"), "").unwrap();
    let wrong = [("link", "found a link"), ("link/", "found a link"), ("file", "found no folder")];
    for (name, found) in wrong {
        let said = words(check(&of(name), me()));
        assert!(said.contains(found) && said.contains("remove"), "{said}");
    }
    for (mode, refused) in
        [(0o777, true), (0o1777, true), (0o770, true), (0o755, false), (0o700, false)]
    {
        set_permissions(of("real"), Permissions::from_mode(mode)).unwrap();
        let checked = check(&of("real"), me());
        assert_eq!(checked.is_err(), refused, "{mode:o}: {checked:?}");
    }
    let said = words(check(&of("nowhere").join("engine"), me()));
    assert!(said.contains("cannot be made"), "{said}");
}

#[test]
fn a_folder_of_another_user_is_refused_also_for_root() {
    let around = tempfile::tempdir().unwrap();
    // The folder is that of the user who runs the test: it is another user who asks.
    let other = me() + 1;
    let said = words(check(around.path(), other));
    assert!(said.contains(&format!("one of user {} while", me())), "{said}");
    // Only root can give a folder away.
    if me() == ROOT {
        chown(around.path(), Some(other), None).unwrap();
        assert!(check(around.path(), ROOT).is_err());
        check(around.path(), other).unwrap();
    }
}

#[test]
fn memory_with_the_names_of_a_user_that_another_one_may_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = prefix_of(me());
    let file = folder.path().join("iox2_7_x.dynamic");
    let check = |prefix: &str, user| check_memory(folder.path(), prefix, user);
    write(&file, "").unwrap();
    set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    check(&prefix, me()).unwrap();
    // The file is of the user who runs the test, or of root.
    let owner = if me() == ROOT { 7 } else { me() };
    check("iox2_7_", owner).unwrap();
    if me() != ROOT {
        let said = words(check("iox2_7_", me() + 1));
        assert!(said.contains("iox2_7_x.dynamic") && said.contains("remove"), "{said}");
    }
    let number = folder.path().join("iox2_7_node.global_mgmt");
    write(&number, "").unwrap();
    set_permissions(&number, Permissions::from_mode(0o666)).unwrap();
    check("iox2_7_", owner).unwrap();
    set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let said = words(check("iox2_7_", owner));
    assert!(said.contains("mode 666"), "{said}");
    if me() == ROOT {
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(8), None).unwrap();
        let said = words(check("iox2_7_", 7));
        assert!(said.contains("is of user 8"), "{said}");
    }
}
