//! Tests of `source`.

use super::*;

#[test]
fn only_a_store_that_is_away_is_said_to_come_back_by_itself() {
    let (server, why) = ("redis://HOST".to_owned(), "refused".to_owned());
    let away = BudgetStoreError::Away { server, why };
    assert!(matches!(NoKeys::of_store(&away), NoKeys::Away(why) if why.contains("is away")));
    let refused = BudgetStoreError::Failed {
        doing: "read the keys",
        path: "redis://HOST".into(),
        why: "NOPERM".to_owned(),
    };
    let newer = BudgetStoreError::Newer { path: "redis://HOST".into(), found: 2, known: 1 };
    for error in [refused, newer] {
        let NoKeys::Unreadable(said) = NoKeys::of_store(&error) else { panic!("{error}") };
        assert_eq!(said.message, error.to_string());
    }
}
