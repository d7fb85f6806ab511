//! Contents that the directory of a file store may have.

use std::fs;
use std::path::PathBuf;

use endstop_runtime::store::{FileStore, Store, StoreError, Version};

use super::place::{Kind, Place, id, whole_trace};

/// A state as version 1 of the format has it; written by hand.
const OLD_STATE: &str = "{\"endstop_state\":1,\"run\":\"old\",\"version\":7,\
    \"saved_at\":1793534400000,\"bytes\":11,\"xxh3\":\"HASH\",\"label\":\"from before\",\
    \"later\":true}\nhello world";

struct Setup {
    place: Place,
    store: FileStore,
}

fn setup(name: &str) -> Setup {
    let place = Place::new(Kind::File, name);
    let store = FileStore::open(place.path()).unwrap();
    Setup { place, store }
}

impl Setup {
    fn file(&self, run: &str, name: &str) -> PathBuf {
        self.place.path().join(format!("{run}.run")).join(name)
    }

    async fn save(&self, run: &str, state: &str) {
        self.store.save(&id(run), state, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_state_cut_or_altered_anywhere_is_told_and_hides_no_other() {
    let setup = setup("files-damage");
    setup.save("bad", "{\"label\":\"grüße\",\"steps\":[1,2,3]}").await;
    setup.save("good", "good").await;
    let path = setup.file("bad", "state");
    let whole = fs::read(&path).unwrap();
    let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
    let flipped = (0..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x11;
        bytes
    });
    let text = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for (number, bytes) in cut.chain(flipped).enumerate() {
        fs::write(&path, &bytes).unwrap();
        let at = number % whole.len();
        match setup.store.load(&id("bad")).await {
            Err(error @ (StoreError::Damaged { .. } | StoreError::Newer { .. })) => {
                assert!(error.to_string().contains("bad.run"), "{error}");
            }
            // The header has no digest of itself; its numbers and its label can be altered.
            Ok(Some(state)) => {
                assert!(at < text && state.text.as_bytes() == &whole[text..], "{number}");
            }
            other => panic!("{number}: {other:?}"),
        }
        let runs = setup.store.list().await.unwrap();
        let good = runs.iter().find(|run| run.id.as_str() == "good").unwrap();
        assert_eq!((runs.len(), &good.problem), (2, &None), "{number}");
        if number < whole.len() {
            let bad = runs.iter().find(|run| run.id.as_str() == "bad").unwrap();
            assert!(bad.problem.is_some(), "cut after {number} bytes");
        }
    }
}

#[tokio::test]
async fn a_damaged_state_is_kept_aside_when_it_is_replaced() {
    let setup = setup("files-aside");
    setup.save("bad", "state").await;
    fs::write(setup.file("bad", "state"), "garbage").unwrap();
    let refused = setup.store.save(&id("bad"), "new", Some(Version(1))).await;
    assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{refused:?}");
    assert_eq!(setup.store.save(&id("bad"), "new", None).await.unwrap(), Version(1));
    assert_eq!(fs::read(setup.file("bad", "state.damaged")).unwrap(), b"garbage");
    assert_eq!(setup.store.load(&id("bad")).await.unwrap().unwrap().text, "new");
    assert!(setup.store.remove(&id("bad")).await.unwrap());
    assert!(!setup.file("bad", "").exists());
}

#[tokio::test]
async fn old_states_are_read_and_later_ones_are_left_alone() {
    let setup = setup("files-versions");
    setup.save("old", "hello world").await;
    let path = setup.file("old", "state");
    let written = fs::read_to_string(&path).unwrap();
    let hash = written.split("\"xxh3\":\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(hash, "d447b1ea40e6988b", "the digest of `hello world`");
    fs::write(&path, OLD_STATE.replace("HASH", hash)).unwrap();
    let state = setup.store.load(&id("old")).await.unwrap().unwrap();
    assert_eq!((state.version, state.saved_at), (Version(7), 1_793_534_400_000));
    assert_eq!(state.text, "hello world");
    assert_eq!(setup.store.list().await.unwrap()[0].label, "from before");
    assert_eq!(setup.store.save(&id("old"), "x", Some(Version(7))).await.unwrap(), Version(8));

    let later = "{\"endstop_state\":2,\"parts\":[]}\n";
    fs::write(&path, later).unwrap();
    let error = setup.store.load(&id("old")).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error}");
    let error = setup.store.save(&id("old"), "x", None).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), later);
}

#[tokio::test]
async fn the_state_of_another_run_is_not_taken_for_ones_own() {
    let setup = setup("files-swapped");
    setup.save("a", "state of a").await;
    setup.save("b", "state of b").await;
    fs::copy(setup.file("a", "state"), setup.file("b", "state")).unwrap();
    let error = setup.store.load(&id("b")).await.unwrap_err();
    assert!(error.to_string().contains("the state of run `a`"), "{error}");
}

#[tokio::test]
async fn half_a_line_that_a_kill_left_is_cut_off() {
    let setup = setup("files-torn");
    let run = id("torn");
    let path = setup.file("torn", "trace.jsonl");
    setup.store.append(&run, "one\ntwo\n").await.unwrap();
    let long = format!("{{\"at\":1,\"text\":\"{}", "é".repeat(200_000));
    let torn = [&b"{\"half"[..], b"{", long.as_bytes(), &long.as_bytes()[..long.len() - 1]];
    for (number, tail) in torn.into_iter().enumerate() {
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole, tail].concat()).unwrap();
        let before = whole_trace(&setup.store, &run).await;
        assert_eq!(before.len(), 2 + number);
        setup.store.append(&run, "more").await.unwrap();
        let after = whole_trace(&setup.store, &run).await;
        assert_eq!((after.len(), after.last().unwrap().as_str()), (before.len() + 1, "more"));
    }
}

#[tokio::test]
async fn other_files_in_the_directory_are_left_alone() {
    let setup = setup("files-foreign");
    setup.save("mine", "state").await;
    let directory = setup.place.path();
    for name in ["notes.txt", "file.run", ".DS_Store"] {
        fs::write(directory.join(name), "foreign").unwrap();
    }
    for name in ["empty.run", "sp ace.run", "directory"] {
        fs::create_dir(directory.join(name)).unwrap();
    }
    fs::write(setup.file("mine", "notes.txt"), "foreign").unwrap();
    let reopened = FileStore::open(&directory).unwrap();
    let runs = reopened.list().await.unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!((runs[0].id.as_str(), &runs[0].problem), ("mine", &None));
    assert!(reopened.remove(&id("mine")).await.unwrap());
    assert!(setup.file("mine", "notes.txt").exists());
    assert!(!setup.file("mine", "state").exists());
    assert_eq!(fs::read_to_string(directory.join("notes.txt")).unwrap(), "foreign");
}

#[tokio::test]
async fn a_medium_that_refuses_names_the_run_and_the_file() {
    let setup = setup("files-refused");
    setup.save("stuck", "kept").await;
    fs::create_dir(setup.file("stuck", "state.new")).unwrap();
    let error = setup.store.save(&id("stuck"), "lost", None).await.unwrap_err();
    assert!(matches!(error, StoreError::Failed { .. }), "{error:?}");
    assert!(error.to_string().starts_with("cannot save run `stuck` (`"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(setup.store.load(&id("stuck")).await.unwrap().unwrap().text, "kept");

    fs::write(setup.place.path().join("plain"), "").unwrap();
    let error = FileStore::open(setup.place.path().join("plain")).unwrap_err();
    assert!(error.to_string().starts_with("cannot open the store"), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_an_error_and_not_a_loss() {
    let setup = setup("files-full");
    let run = id("full");
    setup.save("full", "kept").await;
    std::os::unix::fs::symlink("/dev/full", setup.file("full", "trace.jsonl")).unwrap();
    let error = setup.store.append(&run, "lost").await.unwrap_err();
    assert!(error.to_string().starts_with("cannot append to run `full`"), "{error}");
    assert_eq!(setup.store.load(&run).await.unwrap().unwrap().text, "kept");
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_transcripts() {
    use std::os::unix::fs::PermissionsExt;
    let setup = setup("files-private");
    setup.save("secret", "state").await;
    setup.store.append(&id("secret"), "line").await.unwrap();
    let lock = setup.store.lock(&id("secret")).await.unwrap();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for name in ["state", "trace.jsonl", "guard"] {
        assert_eq!(mode(setup.file("secret", name)), 0o600, "{name}");
    }
    assert_eq!(mode(setup.place.path().join("~locks/secret.lock")), 0o600);
    for directory in ["", "secret.run", "~locks"] {
        assert_eq!(mode(setup.place.path().join(directory)), 0o700, "{directory}");
    }
    drop(lock);
    assert!(!setup.place.path().join("~locks/secret.lock").exists());
}
