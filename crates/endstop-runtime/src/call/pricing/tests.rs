//! Tests of `pricing`.

use super::*;

#[test]
fn the_worst_case_of_a_request_has_what_it_asks_for() {
    let table = PriceTable::embedded();
    // Tiers have prices since 2026-10-12.
    let at = WallTime(1_795_000_000_000);
    let claude = Pricing::new("anthropic", "claude-sonnet-4-5", table);
    let worst = |pricing: &Pricing| match pricing.worst(100_000, 0, at) {
        Cost::Known(money) => money.picos(),
        Cost::Unpriced => panic!("a model with a price"),
    };
    let hourly = claude.clone().for_request(&CallContext::default(), true);
    assert_eq!(worst(&hourly), worst(&claude) / 5 * 8, "2 times the input, not 1.25 times");
    let tier = |tier: &str| {
        let asked = CallContext { service_tier: Some(tier.to_owned()), ..CallContext::default() };
        worst(&Pricing::new("openai", "gpt-5", table).for_request(&asked, false))
    };
    assert!(tier("priority") > tier("default"));
    assert_eq!(tier("flex"), tier("default"), "it may be served at the usual price");
    assert_eq!(tier("auto"), tier("priority"), "it may be served at any");
}

#[test]
fn a_reported_cost_counts_if_it_is_higher_or_of_a_provider_that_bills_by_it() {
    let table = PriceTable::embedded();
    let [own, reseller] =
        ["openai", RESELLER].map(|provider| Pricing::new(provider, "gpt-4o-mini", table));
    let cents = |cents: u64| Money::from_picos(cents * 10_000_000_000);
    for (reported, by_table, want, want_of_reseller) in [
        (Some(0), Some(5), Some(5), Some(0)),
        (Some(4), Some(5), Some(5), Some(4)),
        (Some(6), Some(5), Some(6), Some(6)),
        (Some(6), None, Some(6), Some(6)),
        (Some(0), None, None, Some(0)),
        (None, Some(5), Some(5), Some(5)),
        (None, None, None, None),
    ] {
        let cost = |cost: Option<u64>| cost.map_or(Cost::Unpriced, |it| Cost::Known(cents(it)));
        let reported = reported.map(cents);
        assert_eq!(own.with_report(reported, cost(by_table)), cost(want));
        assert_eq!(reseller.with_report(reported, cost(by_table)), cost(want_of_reseller));
    }
}

#[test]
fn the_worst_case_of_images_and_speech_is_at_their_rates() {
    let at = WallTime(1_795_000_000_000);
    let of = |model: &str| Pricing::new("", model, PriceTable::embedded());
    let worst = |pricing: &Pricing| match pricing.worst(1_000, 1_000, at) {
        Cost::Known(money) => money.picos(),
        Cost::Unpriced => panic!("a model with a price"),
    };
    let image = Modalities { image_output: true, ..Modalities::default() };
    let audio = Modalities { media_input: true, audio_output: true, ..Modalities::default() };
    // $0.3 and $30 per million, in pico-dollars a token.
    let painter = of("gemini-2.5-flash-image");
    assert_eq!(worst(&painter.clone().with_modalities(image)), 1_000 * (300_000 + 30_000_000));
    // $32 and $64.
    let speaker = of("gpt-audio");
    let both = 1_000 * (32_000_000 + 64_000_000);
    assert_eq!(worst(&speaker.clone().with_modalities(audio)), both);
    assert!(speaker.has_output_rates(audio) && !painter.has_output_rates(audio));
    let text = of("gpt-5").with_modalities(audio);
    assert_eq!(worst(&text), worst(&of("gpt-5")), "a model without other rates");
}

#[test]
fn one_listed_window_is_larger_than_what_is_assumed_of_others() {
    let table = PriceTable::embedded();
    let window =
        |(provider, model)| Some((model, table.find(Some(provider), model)?.context_window()?));
    let larger = table.models().filter_map(window).filter(|(_, window)| *window > LARGEST_WINDOW);
    let larger: Vec<_> = larger.collect();
    assert_eq!(larger, [("meta.llama4-scout-17b-instruct-v1:0", 10_000_000)]);
}

#[test]
fn the_worst_case_is_that_of_the_dearest_who_may_answer_with_all_searches() {
    let at = WallTime(1_795_000_000_000);
    let of = |model: &str| Pricing::new("openai", model, PriceTable::embedded());
    let picos = |pricing: &Pricing| match pricing.worst(1_000, 100, at) {
        Cost::Known(money) => Some(money.picos()),
        Cost::Unpriced => None,
    };
    let (cheap, dear) = (of("gpt-4o-mini"), of("gpt-4"));
    let either = cheap.clone().or_others(vec![dear.clone(), cheap.clone()]);
    assert_eq!(picos(&either), picos(&dear));
    assert_eq!(either.context_window(), cheap.context_window());
    assert!(cheap.context_window().is_some_and(|window| window < LARGEST_WINDOW));
    assert_eq!(of("gpt-4.5-preview").context_window(), Some(LARGEST_WINDOW));
    let unknown = cheap.clone().or_others(vec![of("no-such-model")]);
    assert_eq!((picos(&unknown), unknown.context_window()), (None, None));
    let searching = cheap.clone().with_searches(5);
    // $10 per thousand.
    assert_eq!(picos(&searching), picos(&cheap).map(|cost| cost + 50_000_000_000));
}
