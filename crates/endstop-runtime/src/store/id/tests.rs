//! Tests of `id`.

use super::*;

#[test]
fn safe_names_are_ids() {
    let longest = "x".repeat(MAX_RUN_ID_BYTES);
    for text in ["a", "0", "nightly-17", "a.b_c-D", "...", ".hidden", &longest] {
        assert_eq!(RunId::parse(text).unwrap().as_str(), text);
    }
}

#[test]
fn names_that_look_like_paths_are_refused() {
    let too_long = "x".repeat(MAX_RUN_ID_BYTES + 1);
    let cases = [
        ("", RunIdError::Empty),
        (".", RunIdError::Directory),
        ("..", RunIdError::Directory),
        ("../up", RunIdError::Character { found: '/' }),
        ("a\\b", RunIdError::Character { found: '\\' }),
        ("C:x", RunIdError::Character { found: ':' }),
        ("~x", RunIdError::Character { found: '~' }),
        ("a b", RunIdError::Character { found: ' ' }),
        ("a\0", RunIdError::Character { found: '\0' }),
        ("läuft", RunIdError::Character { found: 'ä' }),
        (&too_long, RunIdError::TooLong { bytes: MAX_RUN_ID_BYTES + 1 }),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<RunId>(), Err(expected), "{text:?}");
    }
}

#[test]
fn json_is_checked_like_text() {
    let id: RunId = serde_json::from_str("\"a-1\"").unwrap();
    assert_eq!(serde_json::to_string(&id).unwrap(), "\"a-1\"");
    assert!(serde_json::from_str::<RunId>("\"../a\"").is_err());
}

#[test]
fn a_child_has_an_id_that_no_run_can_have() {
    let run = RunId::parse("a").unwrap();
    let child = run.child(1).unwrap().child(20).unwrap();
    assert_eq!(child.as_str(), "a~1~20");
    assert_eq!(RunId::parse(child.as_str()), Err(RunIdError::Character { found: '~' }));
    let json = serde_json::to_string(&child).unwrap();
    assert_eq!(serde_json::from_str::<RunId>(&json).unwrap(), child);
    for wrong in ["a~", "a~x", "~1", "a~1~", "a~-1", "a~1/2"] {
        assert!(serde_json::from_str::<RunId>(&format!("{wrong:?}")).is_err(), "{wrong}");
    }
    let longest = RunId::parse(&"x".repeat(MAX_RUN_ID_BYTES)).unwrap();
    let mut deep = longest.child(1);
    for _ in 0..8 {
        deep = deep.and_then(|id| id.child(99_999));
    }
    assert_eq!(deep.unwrap().as_str().len(), MAX_RUN_ID_BYTES + 2 + 8 * 6);
    let too_deep = (0..20).try_fold(longest, |id, _| id.child(u64::MAX));
    assert!(matches!(too_deep, Err(RunIdError::TooLong { .. })));
}

#[test]
fn new_ids_differ_and_ascend() {
    let ids: Vec<RunId> = (0..1000).map(|_| RunId::new()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert_eq!(RunId::parse(ids[0].as_str()).unwrap(), ids[0]);
}
