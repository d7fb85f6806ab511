//! Real calls and worked examples, from a directory next to the project; skipped with a message if it is missing.

use std::path::PathBuf;

use endstop_core::units::{Money, WallTime};
use serde_json::Value;

use crate::decimal::{self, Beyond};
use crate::*;

fn data(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/prices");
    let path = path.join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("skipped: no {name}");
    }
    text
}

fn json(name: &str) -> Option<Value> {
    data(name).map(|text| serde_json::from_str(&text).unwrap())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn at(timestamp: &str) -> WallTime {
    let time: jiff::Timestamp = timestamp.parse().unwrap();
    WallTime(time.as_millisecond().try_into().unwrap())
}

/// The amount as the oracle writes it, in 10⁻²⁷ USD: its decimals have 28 significant digits.
fn amount(text: &str) -> u128 {
    decimal::scaled(text, 27, Beyond::Refuse).unwrap()
}

/// Fails unless both are the same amount; an amount that repeats forever is truncated in the oracle.
fn same(exact: ExactUsd, expected: &str, place: &str) {
    let ours = exact.to_decimal();
    if let Some(repeating) = ours.strip_suffix('…') {
        assert!(repeating.starts_with(expected.get(..24).unwrap()), "{place}: {ours}, {expected}");
    } else {
        assert_eq!(amount(&ours), amount(expected), "{place}: {ours}, {expected}");
    }
}

fn counts(usage: &Value) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = usage
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, count)| (key.clone(), count.as_u64().unwrap()))
        .collect();
    counts.sort();
    counts
}

fn ours(usage: &UsageCounts) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> =
        usage.iter().map(|(unit, count)| (unit.key().to_owned(), count)).collect();
    counts.sort();
    counts
}

fn usage_from(counts: &Value) -> UsageCounts {
    let mut usage = UsageCounts::default();
    for (key, count) in counts.as_object().unwrap() {
        usage.set(Unit::named(key).unwrap(), count.as_u64().unwrap()).unwrap();
    }
    usage
}

fn context(value: &Value) -> CallContext {
    let get = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    CallContext {
        processing: get("processing"),
        service_tier: get("service_tier"),
        speed: get("speed"),
        ..CallContext::default()
    }
}

#[test]
fn every_worked_example_holds() {
    let Some(file) = json("price-fixtures.json") else { return };
    assert_eq!(text(&file, "generated_with"), PriceTable::embedded().version());
    let fixtures = file["fixtures"].as_array().unwrap();
    for fixture in fixtures {
        let name = text(fixture, "name");
        let (provider, flavor) = (text(fixture, "provider_id"), text(fixture, "api_flavor"));
        let usage = if fixture["response"].is_null() {
            usage_from(&fixture["extracted_usage"])
        } else {
            let read = read_response(Some(provider), Some(flavor), &fixture["response"]);
            let (model, usage) = read.unwrap();
            assert_eq!(model.as_deref(), Some(text(fixture, "model_ref")), "{name}");
            usage
        };
        assert_eq!(ours(&usage), counts(&fixture["extracted_usage"]), "{name}");
        let model = PriceTable::embedded().find(Some(provider), text(fixture, "model_ref"));
        let model = model.unwrap();
        assert_eq!(model.model_id(), text(fixture, "matched_model"), "{name}");
        assert_eq!(model.provider_id(), text(fixture, "matched_provider"), "{name}");
        let context = context(&fixture["price_context"]);
        let priced = model.price(&usage, at(text(fixture, "timestamp")), &context).unwrap();
        check_lines(&priced, &fixture["priced"], name);
        let expected = &fixture["expected"];
        same(priced.input, text(expected, "input_price"), name);
        same(priced.output, text(expected, "output_price"), name);
        same(priced.exact, text(expected, "total_price"), name);
        assert_eq!(Some(priced.total), priced.exact.round_up());
    }
    assert_eq!(fixtures.len(), 14);
}

fn check_lines(priced: &Priced, expected: &Value, name: &str) {
    let expected = expected.as_array().unwrap();
    assert_eq!(priced.lines.len(), expected.len(), "{name}");
    for line in &priced.lines {
        let same_unit = |other: &&Value| text(other, "unit") == line.unit.key();
        let other = expected.iter().find(same_unit).unwrap();
        assert_eq!(line.unit.price_key(), text(other, "price_key"), "{name}");
        assert_eq!(Some(line.count), other["count"].as_u64(), "{name}");
        assert_eq!(Some(line.unit.per()), other["per"].as_u64(), "{name}");
        assert_eq!(amount(&line.rate.to_decimal()), amount(text(other, "rate")), "{name}");
        same(line.amount, text(other, "amount"), name);
    }
}

#[test]
fn every_row_of_the_oracle_holds() {
    let Some(file) = json("price-oracle.json") else { return };
    let at = at(text(&file, "timestamp"));
    let rows = file["rows"].as_array().unwrap();
    let mut with_further = 0;
    for (index, row) in rows.iter().enumerate() {
        let (provider, flavor) = (text(row, "provider_id"), text(row, "api_flavor"));
        let place = format!("row {index} {provider} {flavor}");
        // The oracle reads the totals alone, without the requests next to them.
        let mut body = row["body"].clone();
        if let Some(usage) = body.get_mut("usage").and_then(Value::as_object_mut)
            && usage.remove("iterations").is_some()
        {
            let whole = read_response(Some(provider), Some(flavor), &row["body"]).unwrap().1;
            with_further += usize::from(!whole.further().is_empty());
        }
        let read = read_response(Some(provider), Some(flavor), &body);
        let (model, usage) = read.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(ours(&usage), counts(&row["usage"]), "{place}");
        // Without the flavor the body alone tells how to read it, and nothing is lost. (The oracle reads
        // some bodies by rules of another API, which see fewer tokens.)
        let (_, guessed) = read_response(Some(provider), None, &row["body"]).unwrap();
        let (guessed, told) = (guessed.token_usage(), usage.token_usage());
        assert!(guessed.total() >= told.total(), "{place}: {guessed:?}, {told:?}");
        let model = PriceTable::embedded().find(Some(provider), &model.unwrap()).unwrap();
        assert_eq!(model.model_id(), text(row, "model"), "{place}");
        let priced = model.price(&usage, at, &CallContext::default()).unwrap();
        same(priced.input, text(row, "input_price"), &place);
        same(priced.output, text(row, "output_price"), &place);
        same(priced.exact, text(row, "total_price"), &place);
    }
    assert_eq!((rows.len(), with_further), (715, 5));
}

#[test]
fn unknown_models_of_the_oracle_have_no_price() {
    let Some(file) = json("price-oracle.json") else { return };
    for row in file["unknown_model_rows"].as_array().unwrap() {
        let provider = text(row, "provider_id");
        let read = read_response(Some(provider), Some(text(row, "api_flavor")), &row["body"]);
        let model = read.unwrap().0.unwrap();
        let found = PriceTable::embedded().find(Some(provider), &model);
        if let Some(name) = model.strip_prefix("models/") {
            // The oracle does not know that a resource of Gemini's API is the model of that name.
            assert_eq!(found.unwrap().model_id(), name);
            continue;
        }
        assert!(found.is_none(), "{provider} {model} is {found:?}");
    }
}

#[test]
fn every_billed_call_is_computed_to_the_pico_dollar() {
    let Some(file) = data("openrouter-billed.jsonl") else { return };
    let mut rows = 0;
    let mut total = Money::ZERO;
    for line in file.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let usage = serde_json::json!({
            "prompt_tokens": row["prompt_tokens"],
            "completion_tokens": row["completion_tokens"],
            "prompt_tokens_details": { "cached_tokens": row["cached_tokens"] },
            "cost": row["cost"],
        });
        let counts = read_usage(detect_shape(&usage).unwrap(), &usage).unwrap();
        let name = text(&row, "model");
        let model = PriceTable::embedded().find_or_vendor(Some("openrouter"), name).unwrap();
        let at = WallTime(row["created"].as_u64().unwrap() * 1_000);
        let priced = model.price(&counts, at, &CallContext::default()).unwrap();
        let billed = billed_cost(&usage).unwrap();
        assert_eq!(priced.total, billed, "{line}");
        total = total.checked_add(billed).unwrap();
        rows += 1;
    }
    assert_eq!(rows, 1_761);
    assert_eq!(total.to_string(), "$18.8491866");
}

#[test]
fn the_embedded_data_is_the_published_data() {
    let Some(file) = data("genai-prices-0.2.3.dump.json") else { return };
    let published = PriceTable::from_json(&file).unwrap();
    assert_eq!(published.list().providers, PriceTable::embedded().list().providers);
    assert_eq!(published.version(), "unversioned price file");
}
