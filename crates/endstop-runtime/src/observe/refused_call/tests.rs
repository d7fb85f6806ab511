//! The wording of a refusal, by its parts.

use super::*;

fn money(text: &str) -> Money {
    text.parse().unwrap()
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
    let of_run = refused(vec![Shortage { owner: LimitOwner::Run, lack }]);
    let parts = "not sent: this request could cost up to $0.54 (input up to 53,200 tokens $0.53, output up to 500 \
        $0.005); $0.50 of $0.50 is left; ";
    assert_eq!(of_run.to_string(), format!("{parts}a limit of $0.55 would admit it"));
    assert_eq!(of_run.text_for(&["usd"]), format!("{parts}--usd 0.55 would admit it"));
    assert_eq!(of_run.text_for(&["tokens"]), of_run.to_string());

    let lack = Lack::money(Money::ZERO, money("100"), money("0.537"));
    let of_all = refused(vec![Shortage { owner: LimitOwner::AllRuns, lack }]).text_for(&["usd"]);
    let end = "; the total of all runs, $100.00, is used up; a total of all runs of $100.55 would admit it";
    assert!(of_all.ends_with(end), "{of_all}");

    let lack = Lack::tokens(50_000, 60_000, 53_700);
    let of_tokens = refused(vec![Shortage { owner: LimitOwner::Run, lack }]);
    let text = "not sent: this request could use up to 53,700 tokens (input up to 53,200, output up to 500); 50,000 of \
        60,000 tokens are left; --tokens 64300 would admit it";
    assert_eq!(of_tokens.text_for(&["tokens"]), text);

    let unpriced = refused(vec![Shortage { owner: LimitOwner::Run, lack: Lack::Price }]);
    let text = "not sent: no price for model `claude-opus-4-5`, so its cost has no bound";
    assert_eq!(unpriced.to_string(), text);
}

#[test]
fn what_lacks_in_two_limits_is_named_for_both() {
    let money = Lack::money(money("0.50"), money("0.50"), money("0.537"));
    let tokens = Lack::tokens(50_000, 50_000, 53_700);
    let both = [money, tokens].map(|lack| Shortage { owner: LimitOwner::Run, lack });
    let text = refused(both.to_vec()).text_for(&["usd"]);
    let end = "; $0.50 of $0.50 is left, 50,000 of 50,000 tokens are left; --usd 0.55 and a limit of 54,300 tokens \
        would admit it";
    assert!(text.ends_with(end), "{text}");
}
