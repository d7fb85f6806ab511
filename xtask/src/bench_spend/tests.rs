//! The sessions that are generated, and the options.

use std::collections::BTreeSet;

use super::*;

#[test]
fn sessions_have_as_many_bytes_and_calls_as_they_are_said_to_have() {
    let directory = std::env::temp_dir().join(format!("endstop-spend-{}", std::process::id()));
    remove(&directory).unwrap();
    let written = write_sessions(&directory, 3_000_000).unwrap();
    assert!((3_000_000..9_000_000).contains(&written.bytes), "{written:?}");
    let (mut bytes, mut times) = (0, BTreeSet::new());
    for number in 0..written.files {
        let file = format!("projects/-home-me-{}/session-{number}.jsonl", number % PROJECTS);
        let text = fs::read_to_string(directory.join(file)).unwrap();
        bytes += text.len() as u64;
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if line["type"] == "assistant" {
                times.insert(line["timestamp"].as_str().unwrap().to_owned());
            }
        }
    }
    remove(&directory).unwrap();
    assert_eq!((bytes, times.len() as u64), (written.bytes, written.calls));
}

#[test]
fn options_are_a_size_and_a_binary() {
    let parse = |words: &[&str]| Options::parse(words);
    assert_eq!(parse(&[]).unwrap().megabytes, MEGABYTES);
    let both = parse(&["--size", "50", "--binary", "/bin/endstop"]).unwrap();
    assert_eq!(both, Options { megabytes: 50, binary: Some("/bin/endstop".into()) });
    for wrong in [&["--size"][..], &["--size", "0"], &["--size", "much"], &["--fast"]] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
}
