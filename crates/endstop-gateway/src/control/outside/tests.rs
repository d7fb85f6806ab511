//! Paths and queries of questions about budgets, spend and past kills.

use super::super::SOMEONE;
use super::*;

#[test]
fn a_path_names_all_budgets_or_one_or_its_correction_the_spend_or_the_kills() {
    let name = || "team-a".to_owned();
    for (path, question) in [
        ("/endstop/v1/budgets", Some(OutsideQuestion::Budgets)),
        ("/endstop/v1/budgets/", Some(OutsideQuestion::Budgets)),
        ("/endstop/v1/budgets/team-a", Some(OutsideQuestion::Budget(name()))),
        ("/endstop/v1/budgets/team-a/adjust", Some(OutsideQuestion::Correction(name()))),
        ("/endstop/v1/budgets/a%2Fb", Some(OutsideQuestion::Budget("a/b".to_owned()))),
        ("/endstop/v1/spend", Some(OutsideQuestion::Spend)),
        ("/endstop/v1/kills", Some(OutsideQuestion::Kills)),
        ("/endstop/v1/kills/x", None),
        ("/endstop/v1/kill", None),
        ("/endstop/v1/budgets/team-a/adjust/x", None),
        ("/endstop/v1/budgets/team-a/kill", None),
        ("/endstop/v1/budgetsteam-a", None),
        ("/endstop/v1/spend/x", None),
        ("/endstop/v1/runs", None),
    ] {
        assert_eq!(OutsideQuestion::of(path), question, "{path}");
    }
}

#[test]
fn a_query_has_known_parameters_once_each() {
    let read = spend_query(Some("by=model&since=7d&timezone=%2B02:00")).unwrap();
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(read, SpendQuery { by: text("model"), since: text("7d"), timezone: text("+02:00") });
    let plain = spend_query(Some("timezone=+02:00")).unwrap();
    assert_eq!(plain.timezone, text("+02:00"), "a plus sign is no space");
    assert_eq!(spend_query(None), Ok(SpendQuery::default()));
    assert_eq!(spend_query(Some("")), Ok(SpendQuery::default()));
    for (query, error) in [
        ("until=7d", QueryError::Unknown("until".to_owned())),
        ("by=day&by=run", QueryError::Twice("by".to_owned())),
        ("by=%ff", QueryError::NotText("by".to_owned())),
    ] {
        assert_eq!(spend_query(Some(query)), Err(error), "{query}");
    }
    let long = format!("since={}", "7".repeat(MAX_QUERY));
    assert_eq!(spend_query(Some(&long)), Err(QueryError::TooLong));
}

#[test]
fn a_correction_without_a_name_is_one_of_the_control_api() {
    let by = |body: &str| signed(body.as_bytes()).unwrap().by.unwrap();
    assert_eq!(by(r#"{"amount":"+1","message":"a test"}"#), SOMEONE);
    assert_eq!(by(r#"{"amount":"+1","message":"a test","by":" "}"#), SOMEONE);
    assert_eq!(by(r#"{"amount":"+1","message":"a test","by":"ann"}"#), "ann");
    assert!(signed(br#"{"amount":"+1"}"#).is_err(), "the reason is missing");
    assert!(signed(br#"{"amount":"+1","message":"a test","limit":"1"}"#).is_err());
}
