//! Tests of the attacks, and of how they are judged.

use std::fs;

use super::*;

#[test]
fn each_attack_ends_as_expected_and_as_the_page_says() {
    let finished = play_all(&rows::all()).unwrap();
    let faults: Vec<String> = finished.iter().filter_map(Finished::fault).collect();
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), table(&finished));
    let page = fs::read_to_string(crate::root::root().join(PAGE)).unwrap();
    for it in &finished {
        let begin = format!("| {} | {} |", it.row.name, it.row.what);
        let line = page.lines().find(|line| line.starts_with(&begin)).unwrap_or_default();
        let end = format!("| {} |", it.result());
        assert!(line.ends_with(&end), "{}: run `cargo xtask attack --write`", it.row.name);
    }
    let is_row = |line: &&str| line.starts_with("| ") && line.contains(" | $");
    let on_page = page.lines().filter(is_row).count();
    assert_eq!(on_page, finished.len(), "run `cargo xtask attack --write`");
}

#[test]
fn each_api_has_honest_requests_that_must_pass() {
    for path in ["/chat/completions", "/responses", "/messages", ":generateContent"] {
        let is_it = |row: &Row| row.path.ends_with(path) && row.expected == Expected::GoesOn;
        assert!(rows::all().iter().any(is_it), "{path}");
    }
}

#[test]
fn each_known_attack_is_a_row() {
    let rows = rows::all();
    for (name, _) in KNOWN {
        assert!(rows.iter().any(|row| row.name == *name), "{name}");
    }
}

#[test]
fn each_assumption_is_named_in_the_semantics() {
    let page = fs::read_to_string(crate::root::root().join("docs/semantics.md")).unwrap();
    for row in rows::all() {
        if let Expected::RestsOn(assumption) = row.expected {
            let name = assumption.name();
            assert!(page.to_lowercase().contains(&format!("**{name}**")), "{name}");
        }
    }
}

#[test]
fn attacks_are_chosen_by_name() {
    assert_eq!(chosen(&["pages"]).unwrap().len(), 1);
    assert_eq!(chosen(&[]).unwrap().len(), rows::all().len());
    assert!(chosen(&["none"]).unwrap_err().contains("pages"));
}

const PLAYED: Played = Played {
    tries: 1,
    unlimited: 9 * DOLLAR,
    refused: 0,
    calls: 1,
    billed: 0,
    confirmed: 0,
    unconfirmed: 0,
};

/// The judgment of a row with a limit of a dollar.
fn judge(expected: Expected, played: Played) -> Judgment {
    let row = Row { expected, limit: 100, ..*rows::all().first().unwrap() };
    Finished { row, played }.judgment()
}

#[test]
fn a_bill_above_the_limit_or_above_the_ledger_is_a_fault() {
    let judge = |played| judge(Expected::Bounded, played);
    assert_eq!(judge(PLAYED), Judgment::Holds);
    assert_eq!(judge(Played { billed: 1, ..PLAYED }), Judgment::AboveLedger);
    assert_eq!(judge(Played { billed: 1, unconfirmed: 1, ..PLAYED }), Judgment::Holds);
    let above = Played { billed: 2 * DOLLAR, confirmed: 2 * DOLLAR, ..PLAYED };
    assert_eq!(judge(above), Judgment::AboveLimit);
}

#[test]
fn a_row_that_would_not_pass_its_limit_without_a_gateway_is_no_attack() {
    let harmless = Played { unlimited: DOLLAR, ..PLAYED };
    assert_eq!(judge(Expected::Bounded, harmless), Judgment::Harmless);
    let refused = Played { calls: 0, refused: 1, ..harmless };
    assert_eq!(judge(Expected::Refused(402, "a"), refused), Judgment::Harmless);
    assert_eq!(judge(Expected::GoesOn, harmless), Judgment::Holds);
}

#[test]
fn a_request_that_must_be_refused_gets_that_answer_each_time_and_reaches_no_upstream() {
    let judge = |played| judge(Expected::Refused(402, "a"), played);
    assert_eq!(judge(Played { calls: 0, refused: 1, ..PLAYED }), Judgment::Holds);
    assert_eq!(judge(Played { calls: 0, ..PLAYED }), Judgment::NotRefused);
    assert_eq!(judge(Played { refused: 1, ..PLAYED }), Judgment::NotRefused);
}
