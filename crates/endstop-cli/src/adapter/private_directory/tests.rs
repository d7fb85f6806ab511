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

fn at(places: Vec<PathBuf>) -> PrivateDirectory {
    PrivateDirectory { path: places[0].clone(), places, exists: false, _lock: None }
}

#[test]
fn directories_of_dead_runs_are_removed_and_no_others() {
    let parent = place("dead");
    let named =
        |last: char| parent.join(format!("endstop-01890a5d-ac96-774b-bcce-b302099a805{last}"));
    let make = |path: &Path, mode: u32, names: &[&str]| {
        std::fs::create_dir(path).unwrap();
        names.iter().for_each(|name| std::fs::write(path.join(name), "").unwrap());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut living = at(vec![named('1')]);
    living.create().unwrap();
    let dead = named('2');
    make(&dead, 0o700, &[LOCK, "continue.yaml"]);
    // A run that begins, a directory that is open to others, one of another name, and a file.
    let (begins, open, other) = (named('3'), named('4'), parent.join("endstop-mine"));
    make(&begins, 0o700, &[LOCK_DRAFT]);
    make(&open, 0o755, &[LOCK]);
    make(&other, 0o700, &[LOCK]);
    std::fs::write(named('5'), "").unwrap();
    at(vec![named('6')]).remove_dead();
    assert!(!dead.exists());
    for kept in [living.path(), &begins, &open, &other, &named('5')] {
        assert!(kept.exists(), "{}", kept.display());
    }
    drop(living);
    assert!(!named('1').exists());
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
    let mut directory = at(places);
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
