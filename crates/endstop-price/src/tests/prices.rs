//! Rules of the engine on small test tables.

use endstop_core::units::WallTime;
use serde_json::json;

use crate::*;

pub(super) const NOON: WallTime = WallTime(1_793_534_400_000);

pub(super) fn table(model: &str) -> PriceTable {
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

pub(super) fn usage(counts: &[(&str, u64)]) -> UsageCounts {
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
    assert_eq!(&read.list, PriceTable::embedded().list());
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
fn a_model_may_have_a_rate_for_every_unit() {
    let keys = units().rows().iter().map(|row| format!(r#""{}":1"#, row.price_key));
    let rates: Vec<String> = keys.collect();
    assert!(rates.len() > crate::calculate::FEW_ROWS);
    let table = table(&format!(r#""prices":{{{}}}"#, rates.join(",")));
    let counts = [("input_tokens", 1_000_000), ("output_tokens", 2_000_000), ("web_searches", 500)];
    let plain = CallContext::default();
    // With half a thousand searches, and one request.
    assert_eq!(total(&table, &counts, NOON, &plain), "3.501");
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
    let total = |context: &CallContext| total(&table, &counts, NOON, context);
    assert_eq!(total(&CallContext::default()), "22");
    assert_eq!(total(&batch), "16");
    assert_eq!(total(&flex), "19");
    assert_eq!(total(&both), "16");
    assert_eq!(total(&other), "22");
    assert_eq!(super::prices::total(&table, &counts, WallTime(0), &flex), "22");
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
    let find = |provider: Option<&str>, model: &str| {
        table.find(provider, model).map(|m| (m.provider_id().to_owned(), m.model_id().to_owned()))
    };
    let found = |p: &str, m: &str| Some((p.to_owned(), m.to_owned()));
    let gemini = "google/gemini-2.5-pro";
    assert_eq!(find(Some("openrouter"), gemini), found("openrouter", gemini));
    assert_eq!(find(None, &format!("openrouter/{gemini}")), found("openrouter", gemini));
    assert_eq!(find(None, gemini), found("google", "gemini-2.5-pro"));
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
    for (name, model, provider) in [
        ("x_ai", "grok-4", "x-ai"),
        ("grok", "grok-4", "x-ai"),
        ("az.ai.openai", "gpt-5", "azure"),
        ("azureai", "gpt-5", "azure"),
        ("azure-openai.chat", "gpt-5", "azure"),
    ] {
        assert_eq!(find(Some(name), model).map(|f| f.0), Some(provider.to_owned()), "{name}");
    }
    for (name, provider) in [("cf", "cloudflare"), ("together", "together")] {
        assert_eq!(table.provider(name).map(|found| found.id.as_str()), Some(provider), "{name}");
    }
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
fn names_of_gateways_and_clouds_find_their_models() {
    let table = PriceTable::embedded();
    for (name, provider, id) in [
        (
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws",
            "regional.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        (
            "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws",
            "regional.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        (
            "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws",
            "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        ("us.amazon.nova-pro-v1:0", "aws", "amazon.nova-pro-v1:0"),
        ("amazon.nova-lite-v1:0", "aws", "amazon.nova-lite-v1:0"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-pro-v1:0",
            "aws",
            "amazon.nova-pro-v1:0",
        ),
        ("models/gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("azure_ai/gpt-5", "openai", "gpt-5"),
        ("litellm_proxy/anthropic/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("litellm_proxy/gpt-5", "openai", "gpt-5"),
        ("litellm/models/gemini-2.5-pro", "google", "gemini-2.5-pro"),
    ] {
        let found = table.find(None, name).unwrap_or_else(|| panic!("no price for {name}"));
        let found = (found.provider_id(), found.model_id());
        assert!(
            found == (provider, id) || (found.0 == "azure" && found.1 == id),
            "{name}: {found:?}"
        );
    }
    let proxied = table.find(Some("litellm_proxy"), "anthropic/claude-sonnet-4-5").unwrap();
    assert_eq!(proxied.provider_id(), "anthropic");
    // A dot alone makes no id of Bedrock.
    for name in ["us.claude", "nobody.model-1", "us.", ".", "arn:aws:s3:::x/us.amazon"] {
        assert!(table.find(None, name).is_none(), "{name}");
    }
}

#[test]
fn every_hint_is_found_when_it_is_typed() {
    let table = PriceTable::embedded();
    let (mut all, mut nameless) = (0, Vec::new());
    for (provider, id) in table.models() {
        all += 1;
        match table.name_of(None, provider, id) {
            Some(name) => {
                let found = table.find(None, &name).unwrap();
                assert_eq!((found.provider_id(), found.model_id()), (provider, id), "{name}");
            }
            None => nameless.push(format!("{provider}/{id}")),
        }
        // A name is compared with every other: some of them are enough.
        if all % 50 == 0 {
            let typed = format!("{id}x");
            for at in [None, Some(provider)] {
                for hint in table.nearest(at, &typed) {
                    assert!(table.find(at, &hint).is_some(), "{typed} at {at:?}: {hint}");
                }
            }
        }
    }
    // Models whose own names mean another row of the table are never hinted.
    assert!(nameless.len() * 10 < all, "{} of {all}: {:?}", nameless.len(), &nameless[..9]);
}

#[test]
fn the_vendor_stands_in_for_what_openrouter_no_longer_lists() {
    let table = PriceTable::embedded();
    let retired = "google/gemini-3-pro-preview";
    assert!(table.find(Some("openrouter"), retired).is_none());
    let found = table.find_or_vendor(Some("OpenRouter"), retired).unwrap();
    assert_eq!((found.provider_id(), found.model_id()), ("google", "gemini-3-pro-preview"));
    let listed = table.find_or_vendor(Some("openrouter"), "google/gemini-2.5-pro").unwrap();
    assert_eq!(listed.provider_id(), "openrouter");
    assert!(table.find_or_vendor(Some("openrouter"), &format!("{retired}:free")).is_none());
    assert!(table.find_or_vendor(Some("groq"), retired).is_none());
    assert!(table.find_or_vendor(None, retired).is_some());
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
            "provider `p`, model `m`: `cache_read_mtok` and `input_audio_mtok` have prices, and their combination has none",
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

/// docs/semantics.md#1-units
#[test]
fn requests_that_a_provider_makes_by_itself_are_priced_beside_the_response() {
    let sonnet = PriceTable::embedded().find(Some("anthropic"), "claude-sonnet-4-5").unwrap();
    let at = WallTime(1_793_534_400_000);
    let total = |usage: &serde_json::Value| {
        let counts = read_usage(UsageShape::Anthropic, usage).unwrap();
        (counts.token_usage().total(), sonnet.price(&counts, at, &CallContext::default()))
    };
    let one = |input: u64, output: u64| json!({"input_tokens":input,"output_tokens":output});
    let price = |usage| total(&usage).1.unwrap().total.picos();
    // The totals leave the summary out, and hold the messages.
    let compacted = json!({"input_tokens":23_000,"output_tokens":1_000,"iterations":[
        {"type":"compaction","input_tokens":180_000,"output_tokens":3_500},
        {"type":"message","input_tokens":23_000,"output_tokens":1_000}]});
    assert_eq!(total(&compacted).0, 207_500);
    // Not at the tier of a request with 203,000 tokens of input.
    assert_eq!(price(compacted), price(one(180_000, 3_500)) + price(one(23_000, 1_000)));
    let advised = json!({"input_tokens":200,"output_tokens":20,"iterations":[
        {"type":"message","input_tokens":200,"output_tokens":20},
        {"type":"advisor_message","model":"claude-opus-4-8","input_tokens":2_000,"output_tokens":30}]});
    let opus = PriceTable::embedded().find(Some("anthropic"), "claude-opus-4-8").unwrap();
    let advice = read_usage(UsageShape::Anthropic, &one(2_000, 30)).unwrap();
    let advice = opus.total(&advice, at, &CallContext::default()).unwrap();
    assert_eq!(price(advised), price(one(200, 20)) + advice.picos());
    // A declined request counts at its own model's price, whether the totals include it or not.
    let declined = |input: u64, output: u64| {
        json!({"input_tokens":input,"output_tokens":output,"iterations":[
        {"type":"message","model":"claude-opus-4-8","input_tokens":2_000,"output_tokens":30},
        {"type":"fallback_message","model":"claude-sonnet-4-5","input_tokens":2_100,"output_tokens":500}]})
    };
    for (input, output) in [(2_100, 500), (4_100, 530)] {
        let usage = declined(input, output);
        assert_eq!(total(&usage).0, 4_630, "{input}");
        assert_eq!(price(usage), price(one(2_100, 500)) + advice.picos(), "{input}");
    }
    // Totals too small for the answer itself leave both out.
    assert_eq!(total(&declined(2_000, 30)).0, 6_660);
    let unknown = json!({"input_tokens":1,"output_tokens":1,"iterations":[
        {"type":"advisor_message","model":"new","input_tokens":1,"output_tokens":1}]});
    let error = PriceError::UnknownModel { model: "new".to_owned() };
    assert_eq!(total(&unknown).1.unwrap_err(), error);
    let many = vec![json!({"type":"message"}); 257];
    let many = json!({"input_tokens":1,"output_tokens":1,"iterations":many});
    let error = read_usage(UsageShape::Anthropic, &many).unwrap_err().to_string();
    assert_eq!(error, "`iterations` has 257 entries, and at most 256 are read");
}
