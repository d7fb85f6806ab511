//! The wording of a refusal, by its parts.

use super::*;

fn money(text: &str) -> Money {
    text.parse().unwrap()
}

fn short(owner: LimitOwner, lack: Lack, rules: &[(&str, Option<&str>)]) -> Shortage {
    let rule = |&(id, origin): &(&str, Option<&str>)| LimitRule {
        id: id.to_owned(),
        origin: origin.map(str::to_owned),
    };
    Shortage { owner, lack, rules: rules.iter().map(rule).collect() }
}

fn refused(shortages: Vec<Shortage>) -> RefusedCall {
    RefusedCall {
        model: "claude-opus-4-5".to_owned(),
        input_tokens: 53_200,
        output_tokens: 500,
        input_cost: money("0.532"),
        cost: money("0.537"),
        wrap_up_cost: Money::ZERO,
        shortages,
    }
}

#[test]
fn a_refusal_says_its_parts_and_an_amount_that_admits_it() {
    let half = money("0.50");
    let lack = Lack::money(half, half, money("0.537"));
    let of_run = refused(vec![short(LimitOwner::Run, lack, &[("usd", Some("--usd"))])]);
    let parts = "not sent: this request could cost up to $0.54 (input up to 53,200 tokens $0.53, output up to 500 \
        $0.005); $0.50 of $0.50 is left; ";
    let end = " would admit it with an answer of 500 tokens";
    assert_eq!(of_run.to_string(), format!("{parts}a limit of $0.55{end}"));
    assert_eq!(of_run.text_for(&["usd"]), format!("{parts}--usd 0.55{end}"));
    let named = format!("{parts}a limit of $0.55 (rule `usd` of --usd){end}");
    assert_eq!(of_run.text_for(&["tokens"]), named);

    let lack = Lack::money(Money::ZERO, money("100"), money("0.537"));
    let of_all = refused(vec![short(LimitOwner::AllRuns, lack, &[])]).text_for(&["usd"]);
    let used_up = "; the total of all runs, $100.00, is used up; a total of all runs of $100.55";
    assert!(of_all.ends_with(&format!("{used_up}{end}")), "{of_all}");

    let lack = Lack::tokens(50_000, 60_000, 53_700);
    let rules = [("tokens", Some("--tokens"))];
    let of_tokens = refused(vec![short(LimitOwner::Run, lack, &rules)]);
    let text = "not sent: this request could use up to 53,700 tokens (input up to 53,200, output up to 500); 50,000 of \
        60,000 tokens are left; --tokens 64300 would admit it with an answer of 500 tokens";
    assert_eq!(of_tokens.text_for(&["tokens"]), text);

    let unpriced = refused(vec![short(LimitOwner::Run, Lack::Price, &[])]);
    let text = "not sent: no price for model `claude-opus-4-5`, so its cost has no bound";
    assert_eq!(unpriced.to_string(), text);
}

#[test]
fn what_lacks_in_two_limits_is_named_for_both() {
    let money = Lack::money(money("0.50"), money("0.50"), money("0.537"));
    let tokens = Lack::tokens(50_000, 50_000, 53_700);
    let both = vec![
        short(LimitOwner::Run, money, &[("usd", Some("--usd"))]),
        short(LimitOwner::Run, tokens, &[("tokens", None)]),
    ];
    let text = refused(both).text_for(&["usd"]);
    let end = "; $0.50 of $0.50 is left, 50,000 of 50,000 tokens are left; --usd 0.55 and a limit of 54,300 tokens \
        (rule `tokens`) would admit it with an answer of 500 tokens";
    assert!(text.ends_with(end), "{text}");
}

/// An option that the user gave is of no use where a rule of the policy refuses.
#[test]
fn a_suggestion_names_the_rule_that_refuses_and_not_an_option_that_does_not() {
    let lack = Lack::money(money("0.15"), money("0.15"), money("0.25"));
    let of_file = short(LimitOwner::Run, lack, &[("cost", Some("p.toml"))]);
    let text = refused(vec![of_file]).text_for(&["usd"]);
    let end =
        "; a limit of $0.26 (rule `cost` of p.toml) would admit it with an answer of 500 tokens";
    assert!(text.ends_with(end), "{text}");

    let both = [("cost", Some("p.toml")), ("usd", Some("--usd"))];
    let text = refused(vec![short(LimitOwner::Run, lack, &both)]).text_for(&["usd"]);
    let end = "; --usd 0.26 and a limit of $0.26 (rule `cost` of p.toml) would admit it with an answer of 500 tokens";
    assert!(text.ends_with(end), "{text}");
    assert!(!refused(vec![short(LimitOwner::Run, lack, &both)]).to_string().contains("p.toml"));
}
