//! Tests of `private_directory`.

use super::*;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

fn place(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/private").join(test);
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path.canonicalize().unwrap()
}

#[test]
fn it_is_the_users_alone_and_gone_at_the_end() {
    let parent = place("filled");
    let target = parent.join("mine");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("kept"), "x").unwrap();
    let home = parent.to_string_lossy().into_owned();
    let mut directory =
        PrivateDirectory::plan("run", |name| (name == "HOME").then(|| home.clone()));
    assert!(!directory.path().exists());
    let files = [("a.json".to_owned(), "{}".to_owned())];
    directory.create().unwrap();
    directory.fill(&files, &[("mine".into(), target.clone())]).unwrap();
    let path = directory.path().to_owned();
    assert_eq!((mode(&path), mode(&path.join("a.json"))), (0o700, 0o600));
    assert_eq!(std::fs::read_to_string(path.join("mine/kept")).unwrap(), "x");
    assert!(directory.fill(&files, &[("mine".into(), target.clone())]).is_err(), "linked twice");
    drop(directory);
    assert!(!path.exists() && target.join("kept").exists());
}

#[test]
fn the_next_place_is_taken_where_one_cannot_be_written_to() {
    let (taken, home) = (place("taken"), place("free"));
    std::fs::write(taken.join("endstop-run"), "in the way").unwrap();
    // Given as they are, because everyone can write to some directory above many checkouts.
    let places = vec![taken.join("endstop-run"), home.join("endstop-run")];
    let mut directory = PrivateDirectory { path: places[0].clone(), places, exists: false };
    directory.create().unwrap();
    assert_eq!(directory.path().parent(), Some(&*home));
    drop(directory);
    assert!(taken.join("endstop-run").exists() && !home.join("endstop-run").exists());
}

#[test]
fn a_directory_that_everyone_can_write_to_is_passed_over() {
    let parent = place("open");
    std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(0o777)).unwrap();
    let inner = parent.join("inner");
    std::fs::create_dir(&inner).unwrap();
    assert!(!is_private(&parent) && !is_private(&inner));
    assert!(!is_private(Path::new("relative")) && !is_private(&parent.join("missing")));
    let of = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| inner.display().to_string());
    for account in [None, Some(inner.clone())] {
        let directory = PrivateDirectory::plan_for("r", of, account);
        assert_eq!(directory.path().parent(), Some(&*std::env::temp_dir()));
    }
    let directory = PrivateDirectory::plan_for("r", of, Some(PathBuf::from("/")));
    assert_eq!(directory.path(), Path::new("/endstop-r"), "the account's home is private");
    std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(0o755)).unwrap();
}
