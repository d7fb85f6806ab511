//! Tests of `near_duplicate`.

use super::*;

fn hash(text: &str) -> Option<u64> {
    let mut reply = ResponseHash::default();
    reply.feed(text);
    reply.finish()
}

const LONG: &str = "I will now run the tests again to see whether the failing import has been fixed by the last edit.";

#[test]
fn case_space_and_punctuation_do_not_matter() {
    let shouted = LONG.to_uppercase().replace(' ', "\n  ").replace('.', "!!");
    assert_eq!(hash(LONG), hash(&shouted));
}

#[test]
fn short_agreement_is_excepted() {
    assert_eq!(hash("Yes, that is right."), None);
}

#[test]
fn any_split_gives_the_same_hash() {
    for cut in 0..LONG.len() {
        let mut reply = ResponseHash::default();
        reply.feed(&LONG[..cut]);
        reply.feed(&LONG[cut..]);
        assert_eq!(reply.finish(), hash(LONG), "cut at {cut}");
    }
}

#[test]
fn the_last_eight_are_remembered() {
    let mut last = LastResponses::default();
    assert!(!last.has_near(0));
    for i in 1..=9u64 {
        last.push(xxh3_64(&i.to_le_bytes()));
    }
    assert!(!last.has_near(xxh3_64(&1u64.to_le_bytes())));
    assert!(last.has_near(xxh3_64(&2u64.to_le_bytes()) ^ 0b111));
}
