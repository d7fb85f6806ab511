//! Tests of `budgets`.

use super::*;

#[test]
fn a_full_disk_is_named() {
    let failed = |why: &str| {
        let (doing, path) = ("settle a hold", PathBuf::from("budgets.sqlite"));
        store_error(&BudgetStoreError::Failed { doing, path, why: why.to_owned() })
    };
    for why in ["disk I/O error", "database or disk is full"] {
        let hint = failed(why).hint.unwrap();
        assert_eq!(hint, "the disk of `budgets.sqlite` may be full", "{why}");
    }
    assert_eq!(failed("database is locked").hint, None);
}

#[test]
fn a_budget_names_its_parent() {
    let mut team = Account::new("team-a", &["$5 per day"]).unwrap();
    assert_eq!(in_words(&team), "team-a ($5.00 per day)");
    team.parent = Some("org".to_owned());
    assert_eq!(in_words(&team), "team-a ($5.00 per day; parent org)");
}
