//! Streamed matching against a search over the whole text.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn streamed(texts: &Texts, pieces: &[&str]) -> BTreeSet<(bool, usize)> {
    let mut state = texts.start();
    let mut seen = BTreeSet::new();
    let mut note = |found| {
        seen.insert(match found {
            Found::Phrase(i) => (true, i),
            Found::Pattern(i) => (false, i),
        });
    };
    for piece in pieces {
        texts.feed(&mut state, piece.as_bytes(), &mut note);
    }
    texts.end(&state, &mut note);
    seen
}

const PHRASES: [&str; 4] = ["FINAL ANSWER", "ANSWER", "é!", "aaa"];
const PATTERNS: [&str; 4] = ["(?i)final\\s+answer", "done$", "^start", "a+é"];

fn whole(text: &str) -> BTreeSet<(bool, usize)> {
    let phrases =
        PHRASES.iter().enumerate().filter(|(_, p)| text.contains(**p)).map(|(i, _)| (true, i));
    let lower = text.to_lowercase();
    let spaced = lower.split("final").skip(1).any(|rest| {
        rest.starts_with(char::is_whitespace) && rest.trim_start().starts_with("answer")
    });
    let a_then_accent = text.contains("aé");
    let patterns = [spaced, text.ends_with("done"), text.starts_with("start"), a_then_accent];
    phrases
        .chain(patterns.iter().enumerate().filter(|(_, p)| **p).map(|(i, _)| (false, i)))
        .collect()
}

fn compiled() -> Texts {
    Texts::new(&PHRASES, &PATTERNS).map_err(|e| e.message).unwrap()
}

fn check(texts: &Texts, text: &str, cuts: &[usize]) {
    let mut pieces = Vec::new();
    let mut rest = text;
    for &cut in cuts {
        let mut at = cut.min(rest.len());
        while !rest.is_char_boundary(at) {
            at -= 1;
        }
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    assert_eq!(streamed(texts, &pieces), whole(text), "{pieces:?}");
}

#[test]
fn every_split_of_a_text_gives_the_answer_of_the_whole() {
    let text = "start: the FINAL ANSWER is aaaé! and it is done";
    let texts = compiled();
    for first in 0..text.len() {
        for second in 0..text.len() - first {
            check(&texts, text, &[first, second]);
        }
    }
}

#[test]
fn long_pieces_see_what_began_before_them() {
    let texts = compiled();
    let filler = "x".repeat(300);
    for cut in 1.."FINAL ANSWER".len() {
        let text = alloc::format!("{filler}FINAL ANSWER{filler}");
        check(&texts, &text, &[300 + cut]);
        check(&texts, &text, &[300 + cut - 200, 200]);
    }
}

#[test]
fn a_pattern_without_lookahead_is_seen_at_once() {
    let texts = Texts::new(&[], &["ab"]).map_err(|e| e.message).unwrap();
    let mut state = texts.start();
    let mut hits = 0;
    texts.feed(&mut state, b"xab", |_| hits += 1);
    assert_eq!(hits, 1);
}

#[test]
fn a_state_of_another_policy_is_not_accepted() {
    let texts = Texts::new(&["abc"], &["x+y"]).map_err(|e| e.message).unwrap();
    let mut state = texts.start();
    texts.feed(&mut state, b"..abx", |_| {});
    assert!(texts.accepts(&state));
    state.phrases = u32::MAX - 1;
    assert!(!texts.accepts(&state));
}

#[test]
fn patterns_that_cannot_be_used_are_refused_with_help() {
    for pattern in ["(", "a*", r"\bword\b", r"\w{200}{200}"] {
        assert!(check_pattern(pattern).is_err(), "{pattern}");
    }
    for pattern in
        [r"\w+", r"(?i)final\s+answer:?\s*\w{1,8}", "[a-z]{200}", r"(?-u:\b)stop(?-u:\b)"]
    {
        assert!(check_pattern(pattern).is_ok(), "{pattern}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn streamed_equals_whole(text in "[ a-cé!A-Z]{0,40}(FINAL ANSWER|aaa|done|start|final  answer)?[ aé!]{0,90}", cuts in prop::collection::vec(0usize..60, 0..6)) {
        check(&compiled(), &text, &cuts);
    }
}
