//! Stored runs that were damaged: each kind is refused with the path and the reason, and nothing is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use endstop_gateway::{Config, Gateway, RefusalObserver, StartError};
use endstop_runtime::RunEnvironment;
use endstop_runtime::ledger::{Budget, Limits};

use crate::broken::{CHANGED, Sample};
use crate::fake::{Fake, json};
use crate::kit::*;
use crate::stored_runs::{directory, many, path, reading_of, start};
use crate::tenants::Refused;

const POLICY: &str = "[stop]\nlimit = \"steps >= 9\"\n";

async fn sample(test: &str) -> (Fake, Sample) {
    let upstream =
        Fake::start(|_, n| json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await;
    let keep = directory(&format!("{test}-sample"));
    let gateway = start(|| many(POLICY, upstream.addr, &keep)).await;
    let read = |run: &str| fs::read(keep.join(format!("{run}.jsonl"))).unwrap();
    let mut earlier = Vec::new();
    for run in ["a", "b"] {
        let mut agent = Agent::new("Look.");
        for step in 0..2 {
            let got = post(&gateway, &path(run), &agent.request()).await;
            agent.take(&got, "nothing");
            if (run, step) == ("a", 0) {
                earlier = read(run);
            }
        }
    }
    let sample = Sample { earlier, whole: read("a"), other: read("b") };
    drop(gateway);
    (upstream, sample)
}

/// One kind of thing in the place of a file: its name, what the error says, and what makes it at a path.
#[cfg(unix)]
type Place = (&'static str, &'static str, fn(&Path, &Sample));

/// All files of a directory with their bytes, but those of its lock.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| !path.ends_with("~locks"));
    files.map(|path| (path.clone(), fs::read(&path).unwrap_or_default())).collect()
}

/// The same with a budget that all runs share.
fn with_a_total(mut config: Config) -> Config {
    let cost = Some("1".parse().unwrap());
    let budget = Some(Budget::root(Limits { cost, ..Limits::unlimited() }));
    config.environment = RunEnvironment { budget, ..RunEnvironment::default() };
    config
}

/// The file in `keep` is refused for this reason, with its path, and everything stays as it is.
async fn is_refused(upstream: &Fake, keep: &Path, kind: &str, reason: &str) {
    let before = contents(keep);
    let file = keep.join("a.jsonl").display().to_string();
    let names = |text: &str| text.contains(&file) && text.contains(reason);
    let calls = upstream.calls();
    let error = loop {
        match Gateway::start(with_a_total(many(POLICY, upstream.addr, keep))).await {
            Err(StartError::Store { why, .. }) if why.contains("stores its runs there") => {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            started => break started.map(drop).unwrap_err().to_string(),
        }
    };
    assert!(names(&error), "{kind}: {error}");
    let refused = Arc::new(Refused::default());
    let observer = Arc::clone(&refused) as Arc<dyn RefusalObserver>;
    let observed = Some(observer);
    let config = || Config { refusals: observed.clone(), ..many(POLICY, upstream.addr, keep) };
    let gateway = start(config).await;
    for _ in 0..2 {
        let got = post(&gateway, &path("a"), &Agent::new("Look.").request()).await;
        assert_eq!(got.status, 500, "{kind}: {got:?}");
        let error = got.json()["error"]["message"].to_string();
        assert!(error.contains("run `a`") && error.contains(reason), "{kind}: {error}");
        let place = keep.display().to_string();
        assert!(!error.contains(".jsonl") && !error.contains(&place), "{kind}: {error}");
    }
    let told: Vec<_> = refused.0.lock().unwrap().iter().map(|it| it.detail.clone()).collect();
    assert!(told.len() == 2 && told.iter().flatten().all(|text| names(text)), "{kind}: {told:?}");
    assert_eq!(upstream.calls(), calls, "{kind}: a call was sent");
    drop(gateway);
    assert!(contents(keep) == before, "{kind}: a file was changed");
}

#[tokio::test]
async fn changed_files_are_refused_and_stay_as_they_are() {
    let (upstream, sample) = sample("damage").await;
    for (kind, reason, damage) in CHANGED {
        let keep = directory("damage");
        fs::create_dir_all(&keep).unwrap();
        let bytes = damage(&sample);
        assert_ne!(bytes, sample.whole, "{kind}: nothing was damaged");
        fs::write(keep.join("a.jsonl"), bytes).unwrap();
        is_refused(&upstream, &keep, kind, reason).await;
    }
}

#[tokio::test]
async fn a_file_that_was_shortened_anywhere_is_refused() {
    let (upstream, sample) = sample("shortened").await;
    for length in sample.cuts() {
        let keep = directory("shortened");
        fs::create_dir_all(&keep).unwrap();
        fs::write(keep.join("a.jsonl"), &sample.whole[..length]).unwrap();
        is_refused(&upstream, &keep, &format!("cut at {length}"), "lines at its end are missing")
            .await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_of_the_user_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let (upstream, sample) = sample("place").await;
    let kinds: [Place; 6] = [
        ("a directory", "not a regular file", |at, _| fs::create_dir(at).unwrap()),
        ("a symbolic link", "not a regular file", |at, sample| {
            let to = at.with_extension("elsewhere");
            fs::write(&to, &sample.whole).unwrap();
            symlink(to, at).unwrap();
        }),
        ("a link to nothing", "not a regular file", |at, _| symlink("nowhere", at).unwrap()),
        ("a pipe", "not a regular file", |at, _| {
            let made = std::process::Command::new("mkfifo").arg(at).status().unwrap();
            assert!(made.success());
        }),
        ("a socket", "", |at, _| drop(std::os::unix::net::UnixListener::bind(at).unwrap())),
        ("a file without permission", "ermission denied", |at, sample| {
            fs::write(at, &sample.whole).unwrap();
            fs::set_permissions(at, fs::Permissions::from_mode(0o000)).unwrap();
        }),
    ];
    for (kind, reason, place) in kinds {
        let keep = directory("place");
        fs::create_dir_all(&keep).unwrap();
        let file = keep.join("a.jsonl");
        place(&file, &sample);
        if kind == "a file without permission" && fs::read(&file).is_ok() {
            eprintln!("skipped: {kind}: this user may read every file");
            continue;
        }
        let is_link = fs::symlink_metadata(&file).unwrap().file_type().is_symlink();
        if kind == "a pipe" {
            // Its bytes cannot be compared.
            let gateway = start(|| many(POLICY, upstream.addr, &keep)).await;
            let got = post(&gateway, &path("a"), &Agent::new("Look.").request()).await;
            assert_eq!(got.status, 500, "{kind}: {got:?}");
            assert!(got.json()["error"]["message"].to_string().contains(reason), "{got:?}");
            continue;
        }
        is_refused(&upstream, &keep, kind, reason).await;
        assert_eq!(fs::symlink_metadata(&file).unwrap().file_type().is_symlink(), is_link);
    }
}

/// `kill -9` leaves whole lines that the mark does not count yet, and half a line after them.
#[tokio::test]
async fn what_a_kill_leaves_goes_on_and_counts_what_was_acknowledged() {
    let (upstream, sample) = sample("killed").await;
    let bytes = sample.unmarked();
    let mut steps = 1;
    for length in (sample.earlier.len()..=bytes.len()).step_by(7) {
        let keep = directory("killed");
        fs::create_dir_all(&keep).unwrap();
        let file = keep.join("a.jsonl");
        fs::write(&file, &bytes[..length]).unwrap();
        let gateway = start(|| many(POLICY, upstream.addr, &keep)).await;
        let now = reading_of(&gateway, "a", "steps");
        assert!(now >= steps, "{length}: {now} after {steps}");
        steps = now;
        let got = post(&gateway, &path("a"), &Agent::new("Go on.").request()).await;
        assert_eq!(got.status, 200, "{got:?}");
        drop(gateway);
        // The half line is gone, and the following lines are complete again.
        let gateway = start(|| many(POLICY, upstream.addr, &keep)).await;
        assert_eq!(reading_of(&gateway, "a", "steps"), now + 1, "{length}");
    }
    assert_eq!(steps, 2);
}

#[tokio::test]
async fn a_file_that_somebody_writes_to_meanwhile_stops_its_run() {
    let (upstream, sample) = sample("meanwhile").await;
    let keep = directory("meanwhile");
    fs::create_dir_all(&keep).unwrap();
    let file = keep.join("a.jsonl");
    fs::write(&file, &sample.whole).unwrap();
    let gateway = start(|| many(POLICY, upstream.addr, &keep)).await;
    assert_eq!(reading_of(&gateway, "a", "steps"), 2);
    let longer = [&sample.whole[..], b"{\"at\":1}\n"].concat();
    fs::write(&file, &longer).unwrap();
    let calls = upstream.calls();
    let got = post(&gateway, &path("a"), &Agent::new("Look.").request()).await;
    assert_eq!(got.header("x-endstop-reason").as_deref(), Some("error"), "{got:?}");
    assert!(got.words().contains("another program has written"), "{got:?}");
    assert_eq!((upstream.calls(), fs::read(&file).unwrap()), (calls, longer));
}

/// A change of a file: its name, what the error says, and what makes it.
type Change = (&'static str, &'static str, fn(&Path));

/// The gateway keeps the file open between two calls.
#[tokio::test]
async fn a_file_that_changes_while_it_is_open_stops_its_run() {
    let kinds: [Change; 4] = [
        ("longer", "another program has written", |file| {
            let mut bytes = fs::read(file).unwrap();
            bytes.extend_from_slice(b"{\"at\":1}\n");
            fs::write(file, bytes).unwrap();
        }),
        ("shorter", "another program has written", |file| {
            let bytes = fs::read(file).unwrap();
            fs::write(file, &bytes[..bytes.len() - 20]).unwrap();
        }),
        ("removed", "has removed or replaced", |file| fs::remove_file(file).unwrap()),
        ("replaced", "has removed or replaced", |file| {
            let bytes = fs::read(file).unwrap();
            fs::remove_file(file).unwrap();
            fs::write(file, bytes).unwrap();
        }),
    ];
    let upstream =
        Fake::start(|_, n| json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await;
    for (kind, reason, change) in kinds {
        let keep = directory("while-open");
        let file = keep.join("a.jsonl");
        let gateway = start(|| many(POLICY, upstream.addr, &keep)).await;
        let mut agent = Agent::new("Look.");
        let got = post(&gateway, &path("a"), &agent.request()).await;
        agent.take(&got, "nothing");
        change(&file);
        let (before, calls) = (fs::read(&file).ok(), upstream.calls());
        let got = post(&gateway, &path("a"), &agent.request()).await;
        assert_eq!(got.header("x-endstop-reason").as_deref(), Some("error"), "{kind}: {got:?}");
        assert!(got.words().contains(reason), "{kind}: {got:?}");
        assert_eq!(upstream.calls(), calls, "{kind}: a call was sent");
        assert!(fs::read(&file).ok() == before, "{kind}: the file was changed");
    }
}

/// The mark at the end of the header is replaced in its place, so that place has to be near the beginning of the file.
#[tokio::test]
async fn a_long_model_name_is_cut_in_the_header() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let keep = directory("long-model");
    let gateway = start(|| many("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr, &keep)).await;
    let model = "\u{1}é".repeat(20_000);
    let mut request = Agent::new("Look.").request();
    request["model"] = model.clone().into();
    let got = post(&gateway, &path("a"), &request).await;
    assert_eq!(got.status, 200, "{got:?}");
    drop(gateway);
    let file = fs::read_to_string(keep.join("a.jsonl")).unwrap();
    let header = file.lines().next().unwrap();
    assert!(header.len() < 4096, "{} bytes", header.len());
    let header: serde_json::Value = serde_json::from_str(header).unwrap();
    let kept = header["model"].as_str().unwrap();
    assert!(model.starts_with(kept) && kept.len() > 200, "{kept:?}");
    let gateway = start(|| many(POLICY, upstream.addr, &keep)).await;
    assert_eq!(reading_of(&gateway, "a", "steps"), 1);
}
