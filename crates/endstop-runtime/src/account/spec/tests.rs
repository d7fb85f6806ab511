//! Tables: accepted specifications, and the names of errors in refused ones.

use super::*;

fn table(limit: &str) -> BudgetTable {
    BudgetTable { limit: vec![limit.to_owned()], ..BudgetTable::default() }
}

fn problem(name: &str, table: &BudgetTable) -> String {
    Account::from_table(name, table).unwrap_err().to_string()
}

#[test]
fn tables_that_cannot_be_used_are_refused_by_name() {
    let table = table("$5 per day");
    let with = |change: fn(&mut BudgetTable)| {
        let mut changed = table.clone();
        change(&mut changed);
        problem("me", &changed)
    };
    let cases = [
        (problem("a b", &table), "a name has 1 to"),
        (with(|it| it.limit.clear()), "missing `limit`"),
        (with(|it| it.limit = vec!["5".to_owned()]), "`5` is not an amount"),
        (with(|it| it.limit = vec!["$-5".to_owned()]), "`$-5` is not an amount"),
        (with(|it| it.limit = vec!["$5 per year".to_owned()]), "`year` is not a window"),
        (with(|it| it.limit = vec!["$5 per rolling 5s".to_owned()]), "a rolling window has"),
        (with(|it| it.limit = vec!["$9000000".to_owned()]), "`$9000000` is too large"),
        (with(|it| it.warn = Some("0%".to_owned())), "`0%` is not a threshold"),
        (with(|it| it.warn = Some("half".to_owned())), "`half` is not a threshold"),
        (with(|it| it.on_full = Some("wait".to_owned())), "`wait` is not known here"),
        (with(|it| it.timezone = Some("Mars/Olympus".to_owned())), "no time zone `Mars/Olympus`"),
    ];
    for (found, wanted) in cases {
        assert!(found.contains(wanted), "{found}");
    }
}

#[test]
fn parents_are_checked() {
    let of = |name: &str, parent: Option<&str>| {
        let mut account = Account::new(name, &["$5"]).unwrap();
        account.parent = parent.map(str::to_owned);
        account
    };
    let missing = AccountSet::new([of("a", Some("b"))]).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "[budget.a]: `parent` names the budget `b`, which is not defined"
    );
    let cycle = AccountSet::new([of("a", Some("b")), of("b", Some("a"))]).unwrap_err();
    assert_eq!(cycle.why, AccountProblem::Cycle);
    assert!(AccountSet::new([of("a", Some("a"))]).is_err());
}

#[test]
fn a_limit_of_something_that_is_not_counted_is_refused() {
    for dimension in Dimension::ALL {
        let mut account = Account::new("me", &["7 steps per day"]).unwrap();
        account.limits[0].dimension = dimension;
        let refused = AccountSet::new([account]).err().map(|error| error.to_string());
        let is_counted =
            [Dimension::Steps, Dimension::Tokens, Dimension::Cost].contains(&dimension);
        let wanted =
            format!("[budget.me]: a limit is one of money, tokens or steps, not of `{dimension}`");
        assert_eq!(refused, (!is_counted).then_some(wanted));
    }
}

#[test]
fn a_second_table_of_a_name_can_only_tighten() {
    let set = AccountSet::new([
        Account::new("me", &["$5 per day"]).unwrap(),
        Account::new("me", &["$9 per day", "$5 per day"]).unwrap(),
    ]);
    let limits = set.unwrap().get("me").unwrap().limits.clone();
    let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
    assert_eq!(limits, ["$5.00 per day", "$9.00 per day"]);
}

#[test]
fn tables_of_a_name_that_are_for_other_calls_are_refused() {
    let plain = || BudgetTable { limit: vec!["$5 per day".to_owned()], ..BudgetTable::default() };
    let both = |first: BudgetTable, second: BudgetTable| {
        let of = |table| Account::from_table("me", &table).unwrap();
        AccountSet::new([of(first), of(second)]).map(|_| ()).map_err(|error| error.to_string())
    };
    let said = |what: &str| {
        Err(format!("[budget.me]: another table of this name has a different `{what}`"))
    };
    let words = || vec!["a*".to_owned()];
    assert_eq!(both(BudgetTable { models: words(), ..plain() }, plain()), said("models"));
    assert_eq!(both(plain(), BudgetTable { providers: words(), ..plain() }), said("providers"));
    let of = |zone: &str| BudgetTable { timezone: Some(zone.to_owned()), ..plain() };
    assert_eq!(both(of("Europe/Berlin"), of("Asia/Tokyo")), said("timezone"));
    let of = |parent: &str| BudgetTable { parent: Some(parent.to_owned()), ..plain() };
    assert_eq!(both(of("a"), of("b")), said("parent"));
    // A limit of the command line has neither.
    let zone = BudgetTable { timezone: Some("Europe/Berlin".to_owned()), ..plain() };
    assert_eq!(both(zone, plain()), Ok(()));
}

#[test]
fn accounts_of_models_are_drawn_on_whichever_the_run_has() {
    let mut opus = Account::new("opus", &["$50 per week"]).unwrap();
    opus.models = vec!["claude-opus-*".to_owned()];
    let mut openai = Account::new("openai", &["$9"]).unwrap();
    openai.providers = vec!["openai".to_owned()];
    let set = AccountSet::new([opus, openai, Account::new("me", &["$5"]).unwrap()]).unwrap();
    let names = |provider: &str, model: &str| {
        let all = set.of_call(&["me"], provider, model);
        all.iter().map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("anthropic", "claude-opus-4-5"), ["me", "opus"]);
    assert_eq!(names("anthropic", "claude-sonnet-4-5"), ["me"]);
    assert_eq!(names("openai", "gpt-5"), ["me", "openai"]);
}

#[test]
fn patterns_match_whole_names() {
    for (pattern, name, wanted) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*c", "abc", true),
        ("a*b*c", "a-b-c", true),
        ("a*b*c", "a-c", false),
        ("a*a", "a", false),
        ("*b*", "abc", true),
        ("", "", true),
        ("", "a", false),
    ] {
        assert_eq!(is_match(pattern, name), wanted, "{pattern} {name}");
    }
}
