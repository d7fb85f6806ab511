//! Every call to the disk fails once, or is the last before a crash: nothing acknowledged is lost.

use std::env;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::super::disk::fault;
use super::*;

/// More calls than any script makes: reaching it means that scripts never end without a failure.
const MOST_CALLS: u64 = 200;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Once: the program continues.
    Once,
    /// Forever: the process was killed there.
    Crash,
}

/// An operation of a store, and whether it reported it as done.
#[derive(Debug, Default)]
struct Told {
    states: Vec<(&'static str, bool)>,
    lines: Vec<(&'static str, bool)>,
}

/// A new directory, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("endstop-store-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        Self(path)
    }

    fn open(&self, durability: Durability) -> FileStore {
        FileStore { durability, ..FileStore::open(&self.0).unwrap() }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Without a runtime the caller does all the work, in this thread.
fn now<T>(future: BoxFuture<'_, T>) -> T {
    future.now_or_never().expect("there is nothing to wait for")
}

fn run() -> RunId {
    RunId::parse("faulty").unwrap()
}

/// Runs `check` for every call of `script`, both ways and with both durabilities.
fn at_every_call(name: &str, check: impl Fn(&Directory, Durability, Failure, u64) -> bool) {
    for durability in [Durability::Process, Durability::Power] {
        for failure in [Failure::Once, Failure::Crash] {
            let directory = Directory::new(&format!("{name}-{durability:?}-{failure:?}"));
            let calls = (0..MOST_CALLS)
                .take_while(|calls| {
                    drop(fs::remove_dir_all(&directory.0));
                    check(&directory, durability, failure, *calls)
                })
                .count();
            assert!((4..100).contains(&calls), "{name} makes {calls} calls");
        }
    }
}

/// The stored state and trace.
fn found(store: &FileStore) -> (Option<String>, Vec<String>) {
    let state = now(store.load(&run())).unwrap().map(|state| state.text);
    (state, now(store.read_trace(&run(), 0)).unwrap())
}

fn write(store: &FileStore) -> Told {
    let mut told = Told::default();
    let lock = now(store.lock(&run()));
    for (state, line) in [("one", "a"), ("two, longer", "b"), ("3", "c")] {
        let version = now(store.load(&run())).unwrap().map_or(Version(0), |state| state.version);
        told.states.push((state, now(store.save(&run(), state, Some(version))).is_ok()));
        told.lines.push((line, now(store.append(&run(), line)).is_ok()));
    }
    drop(lock);
    told
}

#[test]
fn what_was_acknowledged_survives_a_failure_at_any_call() {
    at_every_call("write", |directory, durability, failure, calls| {
        let store = directory.open(durability);
        let mut told = Told::default();
        let failed = fault::after(calls, failure == Failure::Crash, || told = write(&store));
        let place = format!("{durability:?}, {failure:?} after {calls} calls: {told:?}");

        let store = directory.open(durability);
        let (state, lines) = found(&store);
        let last = told.states.iter().rposition(|(_, done)| *done);
        let acknowledged = last.map(|at| told.states[at].0);
        let after = &told.states[last.map_or(0, |at| at + 1)..];
        // The last sync may fail after the new state is in its place.
        let may_be_newer = durability == Durability::Power;
        assert!(
            state.as_deref() == acknowledged
                || may_be_newer && after.iter().any(|(text, _)| Some(*text) == state.as_deref()),
            "{state:?}: {place}"
        );
        let acknowledged: Vec<&str> =
            told.lines.iter().filter(|(_, done)| *done).map(|(line, _)| *line).collect();
        assert_eq!(lines[..acknowledged.len()], acknowledged, "{place}");
        // After a crash, the line of the last sync may be there; but never a torn one.
        let unasked: Vec<_> = lines[acknowledged.len()..].to_vec();
        match failure {
            Failure::Once => assert!(unasked.is_empty(), "{unasked:?}: {place}"),
            Failure::Crash => {
                let refused = told.lines.iter().find(|(_, done)| !done).map(|(line, _)| *line);
                assert!(unasked.iter().all(|line| Some(line.as_str()) == refused), "{place}");
            }
        }

        let lock = now(store.lock(&run())).unwrap();
        now(store.save(&run(), "after", None)).unwrap();
        now(store.append(&run(), "z")).unwrap();
        let (state, lines) = found(&store);
        assert_eq!((state.as_deref(), lines.last().unwrap().as_str()), (Some("after"), "z"));
        assert_eq!(now(store.list()).unwrap().len(), 1, "{place}");
        drop(lock);
        failed
    });
}

#[test]
fn a_removal_that_fails_can_be_repeated() {
    at_every_call("remove", |directory, durability, failure, calls| {
        let store = directory.open(durability);
        now(store.save(&run(), "kept", None)).unwrap();
        now(store.append(&run(), "a\nb")).unwrap();
        let mut removed = None;
        let failed = fault::after(calls, failure == Failure::Crash, || {
            removed = now(store.remove(&run())).ok();
        });
        let place = format!("{durability:?}, {failure:?} after {calls} calls");

        let store = directory.open(durability);
        let (state, lines) = found(&store);
        assert!(state.is_none() || lines == ["a", "b"], "state without its trace: {place}");
        match removed {
            Some(was_there) => assert!(was_there && state.is_none() && lines.is_empty(), "{place}"),
            None => drop(now(store.remove(&run())).unwrap()),
        }
        assert_eq!(found(&store), (None, Vec::new()), "{place}");
        assert_eq!(now(store.save(&run(), "new", Some(Version(0)))).unwrap(), Version(1));
        failed
    });
}

#[cfg(unix)]
#[test]
fn links_and_special_files_are_not_read_and_not_written_to() {
    let directory = Directory::new("special");
    let store = directory.open(Durability::Process);
    let elsewhere = directory.0.join("elsewhere");
    for file in ["state", "trace.jsonl"] {
        now(store.save(&run(), "state", None)).unwrap();
        now(store.append(&run(), "line")).unwrap();
        let path = store.run_directory(&run()).join(file);
        fs::rename(&path, &elsewhere).unwrap();
        let before = fs::read(&elsewhere).unwrap();
        let refuses = |kind: &str| {
            let (read, written) = match file {
                "state" => (
                    now(store.load(&run())).map(drop),
                    now(store.save(&run(), "x", Some(Version(1)))).map(drop),
                ),
                _ => (now(store.read_trace(&run(), 0)).map(drop), now(store.append(&run(), "x"))),
            };
            assert!(read.is_err() && written.is_err(), "{file}, {kind}: {read:?} {written:?}");
            assert!(read.unwrap_err().to_string().contains(file), "{file}, {kind}");
            assert_eq!(fs::read(&elsewhere).unwrap(), before, "{file}, {kind}");
        };
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        refuses("a symbolic link");
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        refuses("a pipe");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refuses("a directory");
        fs::remove_dir(&path).unwrap();
    }
}
