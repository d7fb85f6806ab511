//! Tests of the attacks, and of how they are judged.

use super::*;

#[test]
fn no_attack_passes_its_limit_but_those_that_are_known_or_assumed() {
    let finished = play_all(&rows::all()).unwrap();
    let faults: Vec<String> = finished.iter().filter_map(Finished::fault).collect();
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), table(&finished));
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
fn the_page_has_every_attack() {
    let page = fs::read_to_string(crate::root::root().join(PAGE)).unwrap();
    for row in rows::all() {
        let begin = format!("\n| {} | {} |", row.name, row.what);
        assert!(page.contains(&begin), "{}: run `cargo xtask attack --write`", row.name);
    }
}

#[test]
fn attacks_are_chosen_by_name() {
    assert_eq!(chosen(&["pages"]).unwrap().len(), 1);
    assert_eq!(chosen(&[]).unwrap().len(), rows::all().len());
    assert!(chosen(&["none"]).unwrap_err().contains("pages"));
}

#[test]
fn a_bill_above_the_limit_or_above_the_books_is_a_fault() {
    let row = *rows::all().first().unwrap();
    let played = Played { tries: 1, calls: 1, billed: 0, confirmed: 0, unconfirmed: 0 };
    let judge = |played| Finished { row, played }.judgment();
    assert_eq!(judge(played), Judgment::Holds);
    assert_eq!(judge(Played { billed: 1, ..played }), Judgment::AboveBooks);
    assert_eq!(judge(Played { billed: 1, unconfirmed: 1, ..played }), Judgment::Holds);
    assert_eq!(
        judge(Played { billed: 2 * DOLLAR, confirmed: 2 * DOLLAR, ..played }),
        Judgment::AboveLimit
    );
}
