//! Tests of `size`.

use endstop_gateway::{Key, KeyHash};
use jiff::Timestamp;

use super::*;
use crate::keys::{KeyAct, Line};

/// Changes a key.
type KeyEdit<'a> = &'a dyn Fn(&mut StoredKey);

fn key(name: &str) -> StoredKey {
    StoredKey {
        name: name.to_owned(),
        hash: KeyHash::of(&Key::new(name)),
        runs: format!("{name}-*").parse().unwrap(),
        budgets: Vec::new(),
        limits: Vec::new(),
        models: Vec::new(),
        created: Timestamp::UNIX_EPOCH,
        expires: None,
        revoked: None,
        changed: None,
    }
}

/// One key, and a comment of that many bytes.
fn file(bytes: usize) -> KeyFile {
    KeyFile { lines: vec![Line::Other(format!("#{}", "x".repeat(bytes))), stored(key("alice"))] }
}

fn stored(key: StoredKey) -> Line {
    Line::Stored(Box::new(key))
}

fn changed(before: &KeyFile, change: impl FnOnce(&mut StoredKey)) -> KeyFile {
    let mut after = before.clone();
    change(after.find("alice").unwrap());
    after
}

#[test]
fn keys_that_nothing_could_read_again_are_not_written_and_those_that_exist_can_be_revoked() {
    let before = file(MAX_KEYS_BYTES_WITH_NEW);
    let mut more = before.clone();
    more.push(key("bob"));
    let refused = check(&before, &more).unwrap_err();
    let TooLarge::Together(error) = refused else { panic!("{refused:?}") };
    assert!(error.message.contains("all keys together"), "{error:?}");
    let revoke = |key: &mut StoredKey| key.revoked = Some(Timestamp::UNIX_EPOCH);
    assert!(check(&before, &changed(&before, revoke)).is_ok());
    let full = file(MAX_KEYS_BYTES);
    assert!(check(&full, &changed(&full, revoke)).is_err());
    // Too large already, and smaller than before.
    assert!(check(&full, &file(MAX_KEYS_BYTES - 1)).is_ok());
    let mut few = KeyFile::default();
    few.push(key("bob"));
    assert!(check(&KeyFile::default(), &few).is_ok());
}

#[test]
fn what_a_key_has_is_bounded_by_count_and_length() {
    let before = file(0);
    let act = |by: &str, why: &str| {
        let (by, why) = (by.to_owned(), why.to_owned());
        Some(KeyAct { at: Timestamp::UNIX_EPOCH, by, why })
    };
    let long = "x".repeat(MAX_KEY_REASON_BYTES + 1);
    let models = |count: usize, length: usize| vec!["m".repeat(length); count];
    let refused = |change: &dyn Fn(&mut StoredKey)| {
        check(&before, &changed(&before, change)).err().map(|refused| match refused {
            TooLarge::Key(error) => error.message,
            TooLarge::Together(_) => panic!("of one key"),
        })
    };
    let changes: [(&str, KeyEdit<'_>); 5] = [
        ("who acts has", &|key| key.changed = act(&long, "")),
        ("the reason has", &|key| key.changed = act("ann", &long)),
        ("names 65 models", &|key| key.models = models(MAX_KEY_MODELS + 1, 1)),
        ("a model has 129 bytes", &|key| key.models = models(1, MAX_KEY_MODEL_BYTES + 1)),
        ("the key would have", &|key| key.budgets = models(MAX_KEY_BYTES, 1)),
    ];
    for (what, change) in changes {
        let error = refused(change).unwrap();
        assert!(error.contains(what), "{error}");
    }
    let most = |key: &mut StoredKey| {
        key.models = models(MAX_KEY_MODELS, MAX_KEY_MODEL_BYTES);
        key.changed = act(&"b".repeat(MAX_KEY_ACTOR_BYTES), &"w".repeat(MAX_KEY_REASON_BYTES));
    };
    assert_eq!(refused(&most), None);
}
