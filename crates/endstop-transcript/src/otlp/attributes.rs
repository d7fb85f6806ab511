//! The attributes of a span, and their values.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::text::Text;

/// Attributes whose names begin so are read; those of transports and databases are not.
const PREFIXES: [&str; 9] = [
    "gen_ai.",
    "llm.",
    "ai.",
    "tool.",
    "traceloop.",
    "openinference.",
    "input.value",
    "output.value",
    "error.type",
];

/// The attributes of a span by name.
pub(super) type Attributes = BTreeMap<String, Value>;

/// An attribute as OTLP/JSON writes it.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Attribute<'a> {
    key: Text<'a>,
    value: Option<&'a RawValue>,
}

/// The attributes that are read, with plain values.
pub(super) fn attributes_of(written: Vec<Attribute<'_>>) -> Attributes {
    let mut attributes = Attributes::new();
    for Attribute { key, value } in written {
        if PREFIXES.iter().any(|prefix| key.starts_with(prefix))
            && let Some(value) = value
            && let Ok(value) = serde_json::from_str::<AnyValue>(value.get())
        {
            attributes.insert(key.into_owned(), value.plain());
        }
    }
    attributes
}

/// A value as OTLP/JSON writes it.
#[derive(Deserialize)]
enum AnyValue {
    #[serde(rename = "stringValue", alias = "bytesValue")]
    Text(String),
    #[serde(rename = "intValue")]
    Int(Value),
    #[serde(rename = "doubleValue")]
    Double(Value),
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[serde(rename = "arrayValue")]
    Array(List),
    #[serde(rename = "kvlistValue")]
    Object(Pairs),
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    values: Vec<AnyValue>,
}

#[derive(Deserialize)]
struct Pairs {
    #[serde(default)]
    values: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    key: String,
    value: Option<AnyValue>,
}

impl AnyValue {
    fn plain(self) -> Value {
        match self {
            Self::Text(text) => Value::String(text),
            // 64-bit integers are strings in OTLP/JSON.
            Self::Int(Value::String(text)) => {
                text.parse::<Number>().map_or(Value::String(text), Value::Number)
            }
            Self::Int(value) | Self::Double(value) => value,
            Self::Bool(value) => Value::Bool(value),
            Self::Array(list) => list.values.into_iter().map(Self::plain).collect(),
            Self::Object(pairs) => {
                let plain = |pair: Pair| (pair.key, pair.value.map_or(Value::Null, Self::plain));
                Value::Object(pairs.values.into_iter().map(plain).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests;
