//! Stored runs that were damaged: each kind is refused with the path and the reason, and nothing is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use endstop_gateway::{Config, Gateway, StartError};
use endstop_runtime::RunEnvironment;
use endstop_runtime::ledger::{Budget, Limits};

use crate::fake::{Fake, json};
use crate::kit::*;
use crate::stored_runs::{directory, many, path, reading_of, start};

const POLICY: &str = "[stop]\nlimit = \"steps >= 9\"\n";

/// The file of a run of two steps.
struct Sample {
    /// After the first step.
    earlier: Vec<u8>,
    whole: Vec<u8>,
    /// Another run's file of the same length.
    other: Vec<u8>,
}

impl Sample {
    fn lines(&self) -> Vec<Vec<u8>> {
        self.whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// With other lines.
    fn edited(&self, edit: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
        let mut lines = self.lines();
        edit(&mut lines);
        lines.concat()
    }

    fn replaced(&self, old: &str, new: &str) -> Vec<u8> {
        let text = String::from_utf8(self.whole.clone()).unwrap();
        assert!(text.contains(old), "{old} in {text}");
        text.replacen(old, new, 1).into_bytes()
    }
}

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

/// One kind of damage: its name, what the error says, and the file.
type Row = (&'static str, &'static str, fn(&Sample) -> Vec<u8>);

/// The same, with what makes the thing at a path.
#[cfg(unix)]
type Place = (&'static str, &'static str, fn(&Path, &Sample));

/// Files with other bytes than a run wrote.
const CHANGED: [Row; 31] = [
    ("empty", "it is empty", |_| Vec::new()),
    ("a line feed", "line 1 is damaged", |_| b"\n".to_vec()),
    ("zeros", "lines at its end are missing", |s| vec![0; s.whole.len()]),
    ("zeros at the end", "was not written by a run", |s| [&s.whole[..], &[0; 64]].concat()),
    ("a block of zeros", "is damaged", |s| {
        let mut bytes = s.whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0);
        bytes
    }),
    ("garbage", "line 1 is damaged", |_| b"\x7fELF\x02\x01\n\x80\xff\n".to_vec()),
    ("garbage at the end", "was not written by a run", |s| [&s.whole[..], b"~~~"].concat()),
    ("a line of garbage", "it has no checksum", |s| [&s.whole[..], b"~~~\n"].concat()),
    ("a huge line", "it has no checksum", |s| {
        [&s.whole[..], b"{\"at\":1,\"event\":\"piece\",\"text\":\"", &vec![b'x'; 8 << 20], b"\"}\n"]
            .concat()
    }),
    ("half a header", "it has 0 of 1", |s| s.whole[..20].to_vec()),
    ("no header", "line 1 is damaged", |s| s.edited(|lines| drop(lines.remove(0)))),
    ("two headers", "line 2 is damaged", |s| s.edited(|lines| lines.insert(1, lines[0].clone()))),
    ("a line less", "lines were removed", |s| s.edited(|lines| drop(lines.remove(3)))),
    ("a line twice", "repeated", |s| s.edited(|lines| lines.insert(3, lines[3].clone()))),
    ("the last line twice", "repeated", |s| {
        s.edited(|lines| lines.push(lines.last().unwrap().clone()))
    }),
    ("the file twice", "is damaged", |s| [&s.whole[..], &s.whole].concat()),
    ("two lines swapped", "moved", |s| s.edited(|lines| lines.swap(3, 4))),
    ("lines in reverse", "moved", |s| s.edited(|lines| lines[1..].reverse())),
    ("an edited amount", "it was changed", |s| s.replaced("\"cost\":\"0.0", "\"cost\":\"0.1")),
    ("an edited time", "it was changed", |s| s.replaced("\"wall\":1", "\"wall\":2")),
    ("an edited number", "in the place of", |s| s.replaced("\"seq\":4", "\"seq\":5")),
    ("an edited checksum", "damaged", |s| {
        s.edited(|lines| {
            let line = &mut lines[4];
            let at = line.len() - 4;
            line[at] = if line[at] == b'0' { b'1' } else { b'0' };
        })
    }),
    ("no checksum", "it has no checksum", |s| {
        s.edited(|lines| lines[2] = b"{\"at\":1,\"event\":\"step_begin\"}\n".to_vec())
    }),
    ("an edited mark", "how many lines", |s| {
        s.replaced("\"end\":\"0000000000", "\"end\":\"0000000009")
    }),
    ("another version", "a trace of version 2", |s| {
        s.replaced("\"endstop_trace\":1", "\"endstop_trace\":2")
    }),
    ("another run's file", "the file of another run", |s| s.other.clone()),
    ("another run's file, renamed", "it was changed", |s| {
        let text = String::from_utf8(s.other.clone()).unwrap();
        text.replacen("\"run\":\"b\"", "\"run\":\"a\"", 1).into_bytes()
    }),
    ("another run's lines", "of another file", |s| {
        let other = s.other.split_inclusive(|byte| *byte == b'\n').nth(2).unwrap().to_vec();
        s.edited(|lines| lines[2] = other)
    }),
    ("text that is not UTF-8", "is damaged", |s| s.edited(|lines| lines[3][10] = 0xff)),
    ("a byte order mark", "line 1 is damaged", |s| [b"\xef\xbb\xbf", &s.whole[..]].concat()),
    ("line ends of Windows", "line 1 is damaged", |s| {
        String::from_utf8(s.whole.clone()).unwrap().replace('\n', "\r\n").into_bytes()
    }),
];

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
            Err(StartError::Store { why, .. }) if why.contains("keeps its runs there") => {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            started => break started.map(drop).unwrap_err().to_string(),
        }
    };
    assert!(names(&error), "{kind}: {error}");
    let gateway = start(|| many(POLICY, upstream.addr, keep)).await;
    for _ in 0..2 {
        let got = post(&gateway, &path("a"), &Agent::new("Look.").request()).await;
        assert_eq!(got.status, 500, "{kind}: {got:?}");
        let error = got.json()["error"]["message"].to_string();
        assert!(names(&error), "{kind}: {error}");
    }
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
    let lines = sample.lines();
    // At the end of each line, one byte before and one after.
    let ends = lines.iter().scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    });
    let cuts = ends.flat_map(|end| [end - 1, end, end + 1]);
    for length in cuts.filter(|length| *length < sample.whole.len()) {
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
    let header = sample.earlier.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    assert_eq!(header.len(), sample.lines()[0].len());
    // The second step was being written, and is not marked.
    let mut bytes = sample.whole.clone();
    bytes[..header.len()].copy_from_slice(header);
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
        // The half line is gone, and what follows is whole again.
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
