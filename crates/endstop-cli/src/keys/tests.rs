//! Tests of `keys`.

use endstop::store::RunId;

use super::*;
use crate::golden_file::golden;

/// The time of issue in the line of a key.
const CREATED: &str = r#""created":"2026-11-25T20:00:00Z""#;

#[test]
fn keys_are_read_line_by_line_and_no_error_shows_one() {
    let lines = "# of the team\nsk-one build-1\n\n  sk-two\tbuild-2\nsk-three ci-*\nsk-four *\n";
    let read = KeyFile::parse(lines).unwrap();
    let runs: Vec<String> = read
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Plain(_, runs, _) => Some(runs.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(runs, ["build-1", "build-2", "ci-*", "*"]);
    assert_eq!(read.to_text(), lines, "what a person wrote stays");
    for wrong in [
        "sk-secret",
        "sk-secret a b",
        "sk-secret ../x",
        "sk-secret a*b",
        "sk-secret a**",
        "sk-secret a\nsk-secret b",
        "{\"version\":1,\"name\":\"a\",\"sha256\":\"secret\"}",
        "{\"secret\":1}secret",
    ] {
        let error = KeyFile::parse(wrong).unwrap_err();
        assert!(error.starts_with("line ") && !error.contains("sk-secret"), "{error}");
    }
}

#[test]
fn an_issued_key_is_written_with_its_hash_and_read_as_it_was() {
    let key = StoredKey {
        name: "alice".to_owned(),
        hash: KeyHash::of(&Key::new("endstop_secret")),
        runs: "alice-*".parse().unwrap(),
        budgets: vec!["team-a".to_owned()],
        limits: vec!["$5 per day".to_owned()],
        models: vec!["gpt-*".to_owned()],
        created: Timestamp::from_second(1_000).unwrap(),
        expires: Some(Timestamp::from_second(2_000).unwrap()),
        revoked: None,
        changed: None,
    };
    let mut file = KeyFile::default();
    file.push(key.clone());
    let text = file.to_text();
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(KeyFile::parse(&text).unwrap().find("alice"), Some(&mut key.clone()));
    let twice = format!("{text}{}", text.replace("alice\"", "bob\""));
    assert!(KeyFile::parse(&twice).unwrap_err().contains("repeats the key"));
    let newer = text.replace("\"name\"", "\"shape\":1,\"name\"");
    assert!(KeyFile::parse(&newer).unwrap_err().contains("later version"));
}

#[test]
fn who_changed_a_key_is_noted_in_that_key_alone_and_lines_without_it_are_read() {
    let line = |name: &str| {
        let hash = KeyHash::of(&Key::new(name)).to_hex();
        format!(
            "{{\"version\":1,\"name\":\"{name}\",\"sha256\":\"{hash}\",\"runs\":\"{name}\",{CREATED}}}\n"
        )
    };
    let mut file = KeyFile::parse(&(line("alice") + &line("bob"))).unwrap();
    let before = file.clone();
    file.find("bob").unwrap().revoked = Some(Timestamp::from_second(1_000).unwrap());
    let at = Timestamp::from_second(2_000).unwrap();
    let act = KeyAct { at, by: "ann".to_owned(), why: "left".to_owned() };
    file.note(&before, &act);
    let mut read = KeyFile::parse(&file.to_text()).unwrap();
    assert_eq!(read, file);
    assert_eq!(read.find("bob").unwrap().changed, Some(act));
    assert_eq!(read.find("alice").unwrap().changed, None);
    assert!(!before.to_text().contains("changed"));
    let wrong = file.to_text().replace(&at.to_string(), "yesterday");
    assert!(KeyFile::parse(&wrong).unwrap_err().contains("`changed`"));
}

#[test]
fn a_field_of_another_type_lifts_no_limit() {
    let hash = "0".repeat(64);
    let undated = format!("{{\"version\":1,\"name\":\"a\",\"sha256\":\"{hash}\",\"runs\":\"a-*\"");
    let good = format!("{undated},{CREATED}");
    assert!(KeyFile::parse(&format!("{good}}}")).is_ok());
    for created in ["", ",\"created\":null"] {
        let error = KeyFile::parse(&format!("{undated}{created}}}")).unwrap_err();
        assert!(error.contains("`created` is missing"), "{error}");
    }
    for (field, problem) in [
        ("\"revoked\":true", "`revoked` is not a text"),
        ("\"expires\":1700000000", "`expires` is not a text"),
        ("\"models\":\"gpt-*\"", "`models` is not a list of texts"),
        ("\"budgets\":\"team-a\"", "`budgets` is not a list of texts"),
        ("\"limits\":[5]", "`limits` is not a list of texts"),
    ] {
        let error = KeyFile::parse(&format!("{good},{field}}}")).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
    let newer = good.replace("\"version\":1", "\"version\":2");
    assert!(
        KeyFile::parse(&format!("{newer}}}")).unwrap_err().contains("a later version wrote it")
    );
    let older = good.replace("\"version\":1", "\"version\":0");
    assert!(KeyFile::parse(&format!("{older}}}")).unwrap_err().contains("`version` is not 1"));
}

#[test]
fn a_file_of_version_1_is_read_as_it_was_written() {
    const LINES: &str = concat!(
        "# of the team\n",
        r#"{"version":1,"name":"alice","sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","#,
        r#""runs":"alice-*","budgets":["team-a"],"limits":["$5 per day","1000 steps per rolling 5h"],"models":["gpt-*"],"#,
        r#""created":"2026-11-25T20:00:00Z","expires":"2027-02-23T20:00:00Z","revoked":null}"#,
        "\n",
        r#"{"version":1,"name":"bob","sha256":"fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210","#,
        r#""runs":"*","budgets":[],"limits":[],"models":[],"created":"2026-11-25T20:00:00Z","expires":null,"#,
        r#""revoked":"2026-11-26T20:00:00Z"}"#,
        "\nsk-plain build-1\n",
    );
    let mut file = KeyFile::parse(LINES).unwrap();
    let alice = file.find("alice").unwrap();
    assert_eq!(alice.hash.to_hex(), "0123456789abcdef".repeat(4));
    assert_eq!(alice.runs.to_string(), "alice-*");
    assert_eq!(alice.budgets, ["team-a"]);
    assert_eq!(alice.limits, ["$5 per day", "1000 steps per rolling 5h"]);
    assert_eq!(alice.models, ["gpt-*"]);
    assert_eq!(alice.revoked, None);
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(alice.created, time("2026-11-25T20:00:00Z"));
    assert_eq!(alice.expires, Some(time("2027-02-23T20:00:00Z")));
    let bob = file.find("bob").unwrap();
    assert_eq!((bob.expires, bob.revoked), (None, Some(time("2026-11-26T20:00:00Z"))));
    assert!(bob.limits.is_empty() && bob.budgets.is_empty() && bob.models.is_empty());
    assert_eq!(file.lines.iter().filter(|line| matches!(line, Line::Plain(..))).count(), 1);
}

#[test]
fn keys_of_version_1_are_written_and_read() {
    let time = |seconds: i64| Timestamp::from_second(1_795_636_800 + seconds).unwrap();
    let alice = StoredKey {
        name: "alice".to_owned(),
        hash: KeyHash::of(&Key::new("endstop_alice")),
        runs: "alice-*".parse().unwrap(),
        budgets: vec!["team-a".to_owned()],
        limits: vec!["$5 per day".to_owned(), "$20".to_owned()],
        models: vec!["gpt-*".to_owned(), "o3".to_owned()],
        created: time(0),
        expires: Some(time(60)),
        revoked: None,
        changed: Some(KeyAct { at: time(0), by: "ann".to_owned(), why: String::new() }),
    };
    // A key of an earlier version has nothing about its last change.
    let bob = StoredKey {
        name: "bob".to_owned(),
        hash: KeyHash::of(&Key::new("endstop_bob")),
        runs: "bob".parse().unwrap(),
        budgets: Vec::new(),
        limits: Vec::new(),
        models: Vec::new(),
        expires: None,
        changed: None,
        ..alice.clone()
    };
    let carol = StoredKey {
        name: "carol".to_owned(),
        hash: KeyHash::of(&Key::new("endstop_carol")),
        revoked: Some(time(120)),
        changed: Some(KeyAct { at: time(120), by: "ann".to_owned(), why: "left".to_owned() }),
        ..alice.clone()
    };
    let mut file = KeyFile::parse("# of the team\nsk-plain build-1\n").unwrap();
    [alice, bob, carol].into_iter().for_each(|key| file.push(key));
    let stored = golden("keys-v1.jsonl", &file.to_text(), &[]);
    assert_eq!(KeyFile::parse(&stored).unwrap(), file);
}

#[test]
fn a_key_of_a_store_that_cannot_be_read_is_known_by_its_name_and_the_others_are_read() {
    let line = |version: u64, name: &str| {
        let hash = KeyHash::of(&Key::new(name)).to_hex();
        format!(
            "{{\"version\":{version},\"name\":\"{name}\",\"sha256\":\"{hash}\",\"runs\":\"{name}-*\",{CREATED}}}"
        )
    };
    let pair = |name: &str, text: String| (name.to_owned(), text);
    let keys = vec![
        pair("alice", line(1, "alice")),
        pair("bob", line(2, "bob")),
        // A text of another key would have what that may do.
        pair("carol", line(1, "alice")),
        pair("dave", "no JSON".to_owned()),
    ];
    // One that is no text.
    let unread = vec!["erin".to_owned()];
    let file = KeyFile::of_store(&StoreKeys { keys, unread, ..StoreKeys::default() });
    assert_eq!(file.stored().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["alice"]);
    let unread: Vec<&UnreadKey> = file.unread().collect();
    let whys: Vec<&str> = unread.iter().map(|key| key.why.as_str()).collect();
    assert_eq!(whys[..2], ["a later version wrote it", "it has another name"]);
    assert!(whys[2].starts_with("no JSON object"), "{whys:?}");
    assert_eq!((unread[3].name.as_str(), whys[3]), ("erin", "it is no text"));
    let issued = unread[0].issued();
    assert_eq!((issued.name.as_str(), issued.hash), ("bob", KeyHash::of(&Key::new("bob"))));
    assert_eq!(issued.runs.to_string(), "bob-*");
    assert_eq!(issued.unread.as_deref(), Some("a later version wrote it"));
}

#[test]
fn the_runs_of_a_key_that_cannot_be_read_stay_those_of_a_key() {
    let hash = KeyHash::of(&Key::new("alice")).to_hex();
    let lists =
        format!("{{\"version\":1,\"name\":\"alice\",\"sha256\":\"{hash}\",\"runs\":[\"ci-*\"]}}");
    let later =
        format!("{{\"version\":2,\"name\":\"alice\",\"sha256\":\"{hash}\",\"runs\":\"ci-*\"}}");
    for text in [lists.as_str(), later.as_str(), "{\"version\":1,", "", "[]"] {
        let keys = vec![("alice".to_owned(), text.to_owned())];
        let file = KeyFile::of_store(&StoreKeys { keys, ..StoreKeys::default() });
        let key = file.unread().next().unwrap();
        let all: Vec<IssuedKey> = std::iter::once(key.issued()).chain(key.usual_runs()).collect();
        assert!(all.iter().all(|key| key.name == "alice" && key.unread.is_some()));
        for run in ["alice", "alice-1", "ci-1"] {
            let run = RunId::parse(run).unwrap();
            assert!(all.iter().any(|key| key.runs.has(&run)), "{text}: {run}");
        }
        let hashes: BTreeSet<String> = all.iter().map(|key| key.hash.to_hex()).collect();
        assert_eq!(hashes.len(), all.len(), "what a client sends finds one");
    }
}
