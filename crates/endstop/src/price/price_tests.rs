//! Rules of the engine on small tables of their own.

use endstop_core::units::{Money, TokenUsage, WallTime};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOON: WallTime = WallTime(1_793_534_400_000);

fn table(model: &str) -> PriceTable {
    let json = format!(
        r#"{{"version":"test","providers":[{{"id":"p","models":[{{"id":"m","match":{{"equals":"m"}},{model}}}]}}]}}"#
    );
    PriceTable::from_json(&json).unwrap_or_else(|error| panic!("{error}"))
}

fn problem(model: &str) -> String {
    let json = format!(
        r#"{{"providers":[{{"id":"p","models":[{{"id":"m","match":{{"equals":"m"}},{model}}}]}}]}}"#
    );
    PriceTable::from_json(&json).unwrap_err().to_string()
}

fn usage(counts: &[(&str, u64)]) -> UsageCounts {
    let mut usage = UsageCounts::default();
    for (key, count) in counts {
        usage.set(Unit::named(key).unwrap(), *count).unwrap();
    }
    usage
}

fn total(
    table: &PriceTable,
    counts: &[(&str, u64)],
    at: WallTime,
    context: &CallContext,
) -> String {
    let model = table.find(Some("p"), "m").unwrap();
    model.price(&usage(counts), at, context).unwrap().exact.to_decimal()
}

#[test]
fn the_data_that_ships_is_whole() {
    let mut text = String::new();
    GzDecoder::new(DATA).read_to_string(&mut text).unwrap();
    let read = read_embedded(&text).unwrap();
    assert_eq!(read.table, *PriceTable::embedded());
    assert_eq!(read.units.rows().len(), 59);
    // The same with every check that a file of the user gets.
    let checked = PriceTable::from_json(&text).unwrap();
    assert_eq!(checked.version(), "genai-prices 0.2.3");
    assert_eq!(checked.providers().count(), 47);
    assert_eq!(checked.models().count(), 2_330);
    let version = include_str!("../../data/genai-prices.version");
    assert!(version.starts_with("genai-prices 0.2.3 "));
    assert!(include_str!("../../data/genai-prices.LICENSE").contains("Copyright (c) Pydantic"));
}

#[test]
fn a_tier_begins_strictly_above_its_start_and_takes_the_whole_call() {
    let tiered = |key: &str, base, tier| {
        format!(r#""{key}":{{"base":{base},"tiers":[{{"start":200000,"price":{tier}}}]}}"#)
    };
    let prices = [tiered("input_mtok", 1, 2), tiered("output_mtok", 10, 15)].join(",");
    let table = table(&format!(r#""prices":{{{prices},"cache_read_mtok":0.5}}"#));
    let context = CallContext::default();
    let call = |input, cached| {
        let counts =
            [("input_tokens", input), ("cache_read_tokens", cached), ("output_tokens", 1_000_000)];
        total(&table, &counts, NOON, &context)
    };
    assert_eq!(call(200_000, 0), "10.2");
    assert_eq!(call(200_001, 0), "15.400002");
    // Cached tokens are part of the total.
    assert_eq!(call(200_001, 200_001), "15.1000005");
}

#[test]
fn a_price_holds_from_its_utc_date_on() {
    let table = table(
        r#""prices":[{"prices":{"input_mtok":1}},{"constraint":{"start_date":"2026-11-01"},"prices":{"input_mtok":3}}]"#,
    );
    let midnight = 1_793_491_200_000;
    let context = CallContext::default();
    let at = |millis| total(&table, &[("input_tokens", 1_000_000)], WallTime(millis), &context);
    assert_eq!(at(0), "1");
    assert_eq!(at(midnight - 1), "1");
    assert_eq!(at(midnight), "3");
}

#[test]
fn where_no_price_is_active_the_first_holds() {
    let table = table(
        r#""prices":[{"constraint":{"start_date":"2027-01-01"},"prices":{"input_mtok":1}},{"constraint":{"start_date":"2028-01-01"},"prices":{"input_mtok":3}}]"#,
    );
    assert_eq!(total(&table, &[("input_tokens", 1_000_000)], NOON, &CallContext::default()), "1");
}

#[test]
fn a_time_of_day_may_pass_midnight() {
    let table = table(
        r#""prices":[{"prices":{"input_mtok":2}},{"constraint":{"start_time":"16:30:00+00:00","end_time":"00:30:00+00:00"},"prices":{"input_mtok":1}}]"#,
    );
    let hour = 3_600_000;
    let context = CallContext::default();
    let at = |millis| total(&table, &[("input_tokens", 1_000_000)], WallTime(millis), &context);
    assert_eq!(at(16 * hour + hour / 2), "1");
    assert_eq!(at(0), "1");
    assert_eq!(at(hour / 2), "2");
    assert_eq!(at(16 * hour), "2");
}

#[test]
fn a_variant_replaces_only_what_it_names_and_the_first_wins() {
    let table = table(
        r#""prices":{"input_mtok":4,"output_mtok":8,"web_searches_kcount":10},
        "price_variants":[
          {"when":{"processing":"batch"},"prices":{"input_mtok":2,"output_mtok":4}},
          {"when":{"service_tier":"flex"},"prices":{"input_mtok":1},"constraint":{"start_date":"2026-01-01"}},
          {"when":{"processing":"batch","service_tier":"flex"},"prices":{"output_mtok":1,"cache_read_mtok":0}}]"#,
    );
    let counts =
        [("input_tokens", 1_000_000), ("output_tokens", 1_000_000), ("web_searches", 1_000)];
    let batch = CallContext { processing: Some("batch".into()), ..CallContext::default() };
    let flex = CallContext { service_tier: Some("flex".into()), ..CallContext::default() };
    let both = CallContext { service_tier: Some("flex".into()), ..batch.clone() };
    let other = CallContext { processing: Some("Batch".into()), ..CallContext::default() };
    let total = |context| total(&table, &counts, NOON, context);
    assert_eq!(total(&CallContext::default()), "22");
    assert_eq!(total(&batch), "16");
    assert_eq!(total(&flex), "19");
    assert_eq!(total(&both), "16");
    assert_eq!(total(&other), "22");
    assert_eq!(super::price_tests::total(&table, &counts, WallTime(0), &flex), "22");
    let rates = table.find(Some("p"), "m").unwrap().rates(NOON, &both);
    assert_eq!(rates.len(), 4);
}

#[test]
fn cache_writes_of_one_hour_leave_the_rest_at_the_five_minute_rate() {
    let table = table(
        r#""prices":{"input_mtok":"3","cache_write_mtok":"3.75","cache_write_1h_mtok":"6","output_mtok":"15"}"#,
    );
    let usage = json!({
        "input_tokens": 3, "cache_creation_input_tokens": 8_037, "output_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 6_037},
    });
    let counts = read_usage(UsageShape::Anthropic, &usage).unwrap();
    let model = table.find(Some("p"), "m").unwrap();
    let priced = model.price(&counts, NOON, &CallContext::default()).unwrap();
    let lines: Vec<_> =
        priced.lines.iter().map(|line| (line.unit.price_key(), line.count)).collect();
    let expected = [("input_mtok", 3), ("cache_write_mtok", 2_000), ("cache_write_1h_mtok", 6_037)];
    assert_eq!(lines, expected);
    assert_eq!(priced.exact.to_decimal(), "0.043731");
}

#[test]
fn a_part_without_a_price_stays_in_its_whole() {
    let table = table(r#""prices":{"input_mtok":1,"output_mtok":2}"#);
    let counts = [
        ("input_tokens", 10),
        ("cache_read_tokens", 9),
        ("output_tokens", 10),
        ("output_reasoning_tokens", 9),
    ];
    assert_eq!(total(&table, &counts, NOON, &CallContext::default()), "0.00003");
}

#[test]
fn contradictory_usage_has_no_price() {
    let table = table(r#""prices":{"input_mtok":1,"cache_read_mtok":1,"output_mtok":2}"#);
    let model = table.find(Some("p"), "m").unwrap();
    let error = |counts: &[(&str, u64)]| {
        model.price(&usage(counts), NOON, &CallContext::default()).unwrap_err().to_string()
    };
    assert_eq!(
        error(&[("input_tokens", 5), ("cache_read_tokens", 6)]),
        "the parts of `input_tokens` are 6, more than its 5"
    );
    assert_eq!(
        error(&[("cache_read_tokens", 6)]),
        "`input_tokens` is missing, though its parts `cache_read_tokens` were reported"
    );
}

#[test]
fn an_overlap_that_was_not_counted_has_no_price() {
    let table = table(
        r#""prices":{"input_mtok":1,"cache_read_mtok":1,"input_audio_mtok":3,"cache_audio_read_mtok":2}"#,
    );
    let model = table.find(Some("p"), "m").unwrap();
    let mut counts =
        usage(&[("input_tokens", 9), ("cache_read_tokens", 5), ("input_audio_tokens", 5)]);
    let error = model.price(&counts, NOON, &CallContext::default()).unwrap_err().to_string();
    assert!(error.starts_with("`cache_audio_read_tokens` is missing"), "{error}");
    counts.set(Unit::named("cache_audio_read_tokens").unwrap(), 2).unwrap();
    let priced = model.price(&counts, NOON, &CallContext::default()).unwrap();
    // 1 plain, 3 cached, 3 audio, 2 both.
    assert_eq!(priced.exact.to_decimal(), "0.000017");
}

#[test]
fn durations_are_milliseconds_and_groq_bills_ten_seconds_at_least() {
    let model = PriceTable::embedded().find(Some("groq"), "whisper-large-v3").unwrap();
    let unit = Unit::named("audio_seconds").unwrap();
    assert_eq!((unit.per(), unit.is_duration()), (3_600_000, true));
    let price = |millis| {
        let mut usage = UsageCounts::default();
        usage.set(unit, millis).unwrap();
        model.price(&usage, NOON, &CallContext::default()).unwrap()
    };
    assert_eq!(price(1), price(10_000));
    assert_ne!(price(10_001).exact, price(10_000).exact);
    assert_eq!(price(0).exact, ExactUsd::ZERO);
}

#[test]
fn models_are_found_by_the_names_that_are_sent() {
    let table = PriceTable::embedded();
    let find = |provider, model| {
        table.find(provider, model).map(|m| (m.provider_id().to_owned(), m.model_id().to_owned()))
    };
    let found = |p: &str, m: &str| Some((p.to_owned(), m.to_owned()));
    let gemini = "google/gemini-3-pro-preview";
    assert_eq!(find(Some("openrouter"), gemini), found("openrouter", gemini));
    assert_eq!(find(None, &format!("openrouter/{gemini}")), found("openrouter", gemini));
    assert_eq!(find(None, gemini), found("google", "gemini-3-pro-preview"));
    assert_eq!(
        find(Some("litellm"), "anthropic/claude-sonnet-4-5"),
        found("anthropic", "claude-sonnet-4-5")
    );
    assert_eq!(find(None, "Claude-Sonnet-4-5-20250929"), found("anthropic", "claude-sonnet-4-5"));
    assert_eq!(find(Some("azure.ai.openai"), "gpt-5").map(|f| f.0), Some("azure".to_owned()));
    assert_eq!(
        find(Some("gcp.vertex_ai"), "gemini-2.5-pro").map(|f| f.0),
        Some("google".to_owned())
    );
    assert_eq!(find(Some("x_ai"), "grok-4").map(|f| f.0), Some("x-ai".to_owned()));
    assert_eq!(find(None, "my-own-model"), None);
    assert_eq!(find(Some("nobody"), "gpt-5"), None);
    assert_eq!(find(None, ""), None);
    assert_eq!(find(None, &"x".repeat(1_000_000)), None);
    assert_eq!(
        table.nearest(Some("anthropic"), "claude-sonet-4-5")[0],
        "anthropic/claude-sonnet-4-5"
    );
    assert!(table.nearest(None, "zzzzzzzzzz").is_empty());
}

#[test]
fn a_borrowed_price_has_no_variants() {
    let table = PriceTable::from_json(
        r#"[{"id":"a","models":[],"fallback_model_providers":["b"]},
            {"id":"b","models":[{"id":"m","match":{"equals":"m"},"prices":{"input_mtok":2},
              "price_variants":[{"when":{"processing":"batch"},"prices":{"input_mtok":1}}]}]}]"#,
    )
    .unwrap();
    let batch = CallContext { processing: Some("batch".into()), ..CallContext::default() };
    let usage = usage(&[("input_tokens", 1_000_000)]);
    let total = |provider| {
        let model = table.find(Some(provider), "m").unwrap();
        model.price(&usage, NOON, &batch).unwrap().total.to_string()
    };
    assert_eq!((total("a"), total("b")), ("$2.00".to_owned(), "$1.00".to_owned()));
}

#[test]
fn a_bad_price_file_says_where() {
    for (model, message) in [
        (
            r#""prices":{"input_mtok":-1}"#,
            "provider `p`, model `m`: `input_mtok` is `-1`: negative",
        ),
        (
            r#""prices":{"input_mtok":"x"}"#,
            "provider `p`, model `m`: `input_mtok` is `x`: not a decimal number",
        ),
        (
            r#""prices":{"input_mtok":1e-30}"#,
            "provider `p`, model `m`: `input_mtok` is `1e-30`: too many decimals",
        ),
        (r#""prices":{"tokens":1}"#, "provider `p`, model `m`: unknown price `tokens`"),
        (
            r#""prices":{"cache_read_mtok":1}"#,
            "provider `p`, model `m`: `cache_read_mtok` has a price and `input_mtok` has none",
        ),
        (
            r#""prices":{"input_mtok":1,"cache_read_mtok":1,"input_audio_mtok":1}"#,
            "provider `p`, model `m`: `cache_read_mtok` and `input_audio_mtok` have prices and what is both has none",
        ),
        (
            r#""prices":[{"constraint":{"start_date":"soon"},"prices":{}}]"#,
            "provider `p`, model `m`: `soon` is not a date or a UTC time of day",
        ),
        (
            r#""prices":{"input_mtok":{"base":1,"tiers":[{"start":2,"price":1},{"start":1,"price":1}]}}"#,
            "provider `p`, model `m`: the tiers of `input_mtok` are not in ascending order",
        ),
    ] {
        assert_eq!(problem(model), message);
    }
    for text in ["", "[]", "{}", "null", r#"{"providers":[]}"#, "[{\"id\":1}]", "[[["] {
        assert!(PriceTable::from_json(text).is_err(), "{text}");
    }
    let pattern = r#"[{"id":"p","models":[{"id":"m","match":{"regex":"("},"prices":{}}]}]"#;
    let error = PriceTable::from_json(pattern).unwrap_err().to_string();
    assert_eq!(error, "provider `p`, model `m`: the regular expression `(` cannot be used");
}

#[test]
fn each_shape_is_told_and_read() {
    let tokens = |input, cache_read, cache_write, cache_write_1h, output| TokenUsage {
        input,
        cache_read,
        cache_write,
        cache_write_1h,
        output,
    };
    for (usage, shape, expected) in [
        (
            json!({"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10}}),
            UsageShape::OpenAiChat,
            tokens(30, 60, 10, 0, 9),
        ),
        (
            json!({"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":null,"cache_read_input_tokens":60,"cache_creation_input_tokens":10}),
            UsageShape::OpenAiChat,
            tokens(30, 60, 10, 0, 9),
        ),
        (
            json!({"input_tokens":100,"output_tokens":9,"input_tokens_details":{"cached_tokens":60}}),
            UsageShape::OpenAiResponses,
            tokens(40, 60, 0, 0, 9),
        ),
        (
            json!({"input_tokens":100,"cached_input_tokens":60,"output_tokens":9,"reasoning_output_tokens":4,"total_tokens":109}),
            UsageShape::OpenAiResponses,
            tokens(40, 60, 0, 0, 9),
        ),
        (
            json!({"input_tokens":3,"cache_read_input_tokens":60,"cache_creation_input_tokens":10,"output_tokens":9}),
            UsageShape::Anthropic,
            tokens(3, 60, 10, 0, 9),
        ),
        (json!({"input_tokens":3,"output_tokens":9}), UsageShape::Anthropic, tokens(3, 0, 0, 0, 9)),
        (
            json!({"promptTokenCount":100,"toolUsePromptTokenCount":5,"cachedContentTokenCount":60,"candidatesTokenCount":9,"thoughtsTokenCount":20}),
            UsageShape::Gemini,
            tokens(45, 60, 0, 0, 29),
        ),
        (
            json!({"inputTokens":3,"outputTokens":9,"cacheReadInputTokens":60,"cacheWriteInputTokens":10}),
            UsageShape::Bedrock,
            tokens(3, 60, 10, 0, 9),
        ),
        (
            json!({"gen_ai.usage.input_tokens":100,"gen_ai.usage.output_tokens":9,"gen_ai.usage.cache_read.input_tokens":60,"gen_ai.usage.cache_creation.input_tokens":10}),
            UsageShape::Otel,
            tokens(30, 60, 10, 0, 9),
        ),
        (
            json!({"gen_ai.usage.prompt_tokens":100,"gen_ai.usage.completion_tokens":9}),
            UsageShape::Otel,
            tokens(100, 0, 0, 0, 9),
        ),
    ] {
        assert_eq!(detect_shape(&usage), Some(shape), "{usage}");
        let counts = read_usage(shape, &usage).unwrap();
        assert_eq!(counts.token_usage(), expected, "{usage}");
        assert!(!counts.was_exclusive());
    }
}

#[test]
fn otel_input_without_its_cached_tokens_is_noticed() {
    let usage = json!({"gen_ai.usage.input_tokens":3,"gen_ai.usage.output_tokens":9,"gen_ai.usage.cache_read.input_tokens":60});
    let counts = read_usage(UsageShape::Otel, &usage).unwrap();
    assert!(counts.was_exclusive());
    let tokens = counts.token_usage();
    assert_eq!((tokens.input, tokens.cache_read, tokens.output), (3, 60, 9));
}

#[test]
fn bad_usage_is_an_error_that_names_the_field() {
    for (usage, message) in [
        (json!({"prompt_tokens":1}), "`completion_tokens` is missing"),
        (json!({"prompt_tokens":-1,"completion_tokens":1}), "`prompt_tokens` is not a count: `-1`"),
        (
            json!({"prompt_tokens":1.5,"completion_tokens":1}),
            "`prompt_tokens` is not a count: `1.5`",
        ),
        (
            json!({"prompt_tokens":1e300,"completion_tokens":1}),
            "`prompt_tokens` is not a count: `1e300`",
        ),
        (
            json!({"prompt_tokens":u64::MAX,"completion_tokens":1}),
            "`prompt_tokens` is not a count: `18446744073709551615`",
        ),
        (json!({"prompt_tokens":"1","completion_tokens":1}), "`prompt_tokens` is not a number"),
        (
            json!({"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":[]}}),
            "`prompt_tokens_details.cached_tokens` is not a number",
        ),
        (json!([]), "`prompt_tokens` is missing"),
    ] {
        let error = read_usage(UsageShape::OpenAiChat, &usage).unwrap_err();
        assert_eq!(error.to_string(), message, "{usage}");
    }
    for usage in [json!(null), json!({}), json!({"tokens": 1}), json!("x")] {
        assert_eq!(detect_shape(&usage), None);
    }
}

#[test]
fn the_billed_amount_is_read_exactly() {
    let billed = |text: &str| {
        let usage = serde_json::from_str(&format!(r#"{{"cost":{text}}}"#)).unwrap();
        billed_cost(&usage).map(Money::picos)
    };
    assert_eq!(billed("0.0052318"), Some(5_231_800_000));
    assert_eq!(billed("1e-05"), Some(10_000_000));
    assert_eq!(billed("0.0000000000001"), Some(1));
    assert_eq!(billed("0"), Some(0));
    assert_eq!(billed("9000000"), Some(9_000_000_000_000_000_000));
    for none in ["9000001", "-1", "null", "\"1\"", "true", "1e300"] {
        assert_eq!(billed(none), None, "{none}");
    }
    assert_eq!(billed_cost(&json!({})), None);
}

#[test]
fn a_response_tells_its_kind() {
    let context = context_of(&json!({"service_tier":"priority","usage":{"prompt_tokens":1}}));
    assert_eq!(context.service_tier.as_deref(), Some("priority"));
    let context = context_of(&json!({"usage":{"service_tier":"batch","speed":"fast"}}));
    assert_eq!(context.processing.as_deref(), Some("batch"));
    assert_eq!(context.speed.as_deref(), Some("fast"));
}

/// A rate as text with up to 6 whole and 18 fractional digits, and the same as a fraction of 10^18.
fn rate() -> impl Strategy<Value = (String, u128)> {
    (0u64..1_000, 0u64..1_000_000_000_000_000_000).prop_map(|(whole, fraction)| {
        let attos = u128::from(whole) * 10u128.pow(18) + u128::from(fraction);
        (format!("{whole}.{fraction:018}"), attos)
    })
}

/// Long multiplication in base 10⁹, least digit first: nothing here can overflow.
fn multiply(a: &[u64], factor: u64) -> Vec<u64> {
    let (mut carry, mut product) = (0u128, Vec::new());
    for digit in a {
        carry += u128::from(*digit) * u128::from(factor);
        product.push(u64::try_from(carry % 1_000_000_000).unwrap());
        carry /= 1_000_000_000;
    }
    while carry > 0 {
        product.push(u64::try_from(carry % 1_000_000_000).unwrap());
        carry /= 1_000_000_000;
    }
    product
}

fn big(mut value: u128) -> Vec<u64> {
    let mut digits = Vec::new();
    while value > 0 {
        digits.push(u64::try_from(value % 1_000_000_000).unwrap());
        value /= 1_000_000_000;
    }
    digits
}

fn plus(a: &[u64], b: &[u64]) -> Vec<u64> {
    let (mut carry, mut sum) = (0, Vec::new());
    for index in 0..a.len().max(b.len()) {
        carry += a.get(index).unwrap_or(&0) + b.get(index).unwrap_or(&0);
        sum.push(carry % 1_000_000_000);
        carry /= 1_000_000_000;
    }
    sum.push(carry);
    sum
}

fn at_most(a: &[u64], b: &[u64]) -> bool {
    let length = a.len().max(b.len());
    let digits = |n: &[u64]| (0..length).rev().map(|i| *n.get(i).unwrap_or(&0)).collect::<Vec<_>>();
    digits(a) <= digits(b)
}

proptest! {
    /// Rounded up, and by less than one pico-dollar, against long multiplication: for each call
    /// `exact ≤ total < exact + 1` in units of 10⁻¹⁸ / 10⁶ USD.
    #[test]
    fn a_call_is_rounded_up_by_less_than_a_pico(
        (input_text, input_rate) in rate(), (output_text, output_rate) in rate(),
        input in 0u64..1 << 32, output in 0u64..1 << 32,
    ) {
        let table = table(&format!(
            r#""prices":{{"input_mtok":{input_text},"output_mtok":"{output_text}"}}"#
        ));
        let model = table.find(Some("p"), "m").unwrap();
        let usage = usage(&[("input_tokens", input), ("output_tokens", output)]);
        let priced = model.price(&usage, NOON, &CallContext::default()).unwrap();
        // A pico-dollar is 10^12 of these units.
        let exact = plus(
            &multiply(&big(input_rate), input),
            &multiply(&big(output_rate), output),
        );
        let total = multiply(&big(u128::from(priced.total.picos())), 1_000_000_000_000);
        prop_assert!(at_most(&exact, &total));
        if priced.total.picos() > 0 {
            let below = multiply(&big(u128::from(priced.total.picos() - 1)), 1_000_000_000_000);
            prop_assert!(!at_most(&exact, &below));
        }
    }

    #[test]
    fn sums_are_free_of_order_and_scale(
        (text, _) in rate(), counts in prop::collection::vec(0u64..1 << 40, 1..12), by in 1u64..1_000,
    ) {
        let table = table(&format!(r#""prices":{{"input_mtok":{text}}}"#));
        let model = table.find(Some("p"), "m").unwrap();
        let exact = |count| {
            let usage = usage(&[("input_tokens", count)]);
            model.price(&usage, NOON, &CallContext::default()).ok().map(|priced| priced.exact)
        };
        let sum = |counts: &mut dyn Iterator<Item = &u64>| {
            counts.try_fold(ExactUsd::ZERO, |sum, count| sum.checked_add(exact(*count)?))
        };
        let forward = sum(&mut counts.iter());
        prop_assert_eq!(forward, sum(&mut counts.iter().rev()));
        if let (Some(forward), Some(whole)) = (forward, exact(counts.iter().sum())) {
            prop_assert_eq!(forward, whole);
        }
        if let Some(one) = exact(counts[0]) {
            let many = (0..by).try_fold(ExactUsd::ZERO, |sum, _| sum.checked_add(one));
            if let (Some(many), Some(scaled)) = (many, exact(counts[0] * by)) {
                prop_assert_eq!(many, scaled);
            }
        }
    }

    #[test]
    fn nothing_overflows_or_panics(
        rate in "[0-9]{1,20}(\\.[0-9]{1,18})?", input in 0u64..MAX_COUNT, cached in 0u64..MAX_COUNT,
        at in any::<u64>(),
    ) {
        let table = table(&format!(
            r#""prices":{{"input_mtok":"{rate}","cache_read_mtok":"{rate}"}}"#
        ));
        let model = table.find(Some("p"), "m").unwrap();
        let usage = usage(&[("input_tokens", input), ("cache_read_tokens", cached)]);
        let priced = model.price(&usage, WallTime(at), &CallContext::default());
        prop_assert!(priced.is_ok() || cached > input || priced == Err(PriceError::TooLarge));
    }

    #[test]
    fn no_name_panics(name in ".{0,60}", provider in ".{0,20}") {
        let table = PriceTable::embedded();
        let _ = table.find(Some(&provider), &name);
        let _ = table.find(None, &name);
        let _ = table.find(Some("openrouter"), &name);
        let _ = table.nearest(None, &name);
    }
}
