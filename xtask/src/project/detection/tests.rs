//! Tests of `detection`.

use super::*;

fn tallies() -> Option<Vec<(&'static str, Kind, Tally)>> {
    let Some(sets) = data::read(&crate::root::root()).unwrap() else {
        println!("skipped: the recorded runs are missing");
        return None;
    };
    let form = default_form().unwrap();
    let of = |set: &Labelled| Tally::of(reports(set, &form).unwrap().iter());
    Some(sets.iter().map(|set| (set.name, set.kind, of(set))).collect())
}

/// The promise: of each set of InterCode at most one success in 200 is lost, of coding agents and tools none, at
/// most one session is stopped, and 40% of InterCode's failures are caught.
#[test]
fn the_default_loses_next_to_no_success_and_catches_what_it_should() {
    let Some(tallies) = tallies() else { return };
    for (name, kind, tally) in &tallies {
        println!("{name}: {tally:?}");
        let all = tally.succeeded + tally.failed + tally.unknown;
        assert!(all > 0, "{name} has no runs that are counted");
        match kind {
            Kind::Intercode => {
                assert!(tally.lost * 200 <= tally.succeeded, "{name}: {tally:?}")
            }
            Kind::Tasks => assert_eq!(tally.lost, 0, "{name}: {tally:?}"),
            Kind::Sessions => assert!(tally.stopped <= 1, "{name}: {tally:?}"),
        }
    }
    let intercode = tallies.iter().filter(|(_, kind, _)| *kind == Kind::Intercode);
    let together = Tally::sum(intercode.map(|(.., tally)| tally));
    assert!(together.caught * 100 >= together.failed * 40, "{together:?}");
}

#[test]
fn every_form_can_be_read() {
    for form in FORMS.iter().copied().chain([default_form().unwrap().as_str()]) {
        assert_eq!(parse(form).unwrap().to_string(), form);
    }
}

#[test]
fn an_interval_contains_its_share() {
    let table::Wilson { low, high } = table::Wilson::of(1, 762);
    assert!((0.02..0.03).contains(&low) && (0.73..0.75).contains(&high), "{low} {high}");
}
