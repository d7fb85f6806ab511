//! What does not fit a schema, in words that a model can act on.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

use super::{cut, forms};
use crate::tool::nearest::nearest;

/// The longest piece of the arguments or of the schema that is quoted, in bytes.
const MAX_QUOTE_BYTES: usize = 80;
/// The names and values that are listed.
const MAX_LISTED: usize = 12;
/// Five problems fit into what is told at most.
const MAX_LINE_BYTES: usize = 380;

/// One problem: place, expectation, finding.
pub(super) fn line(error: &ValidationError<'_>, schema: &Value) -> String {
    let place = error.instance_path().as_str();
    let text = match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let expected = field(error, schema, name).map_or(String::new(), summary);
            format!("{}: missing{expected}", at(&below(place, name)))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("{}: {}", at(place), unknown_fields(error, schema, unexpected))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            forms::line(error, context, schema)
        }
        _ => format!(
            "{}: expected {}, found {}",
            at(place),
            expected(error),
            found(error.instance())
        ),
    };
    cut(text, MAX_LINE_BYTES)
}

/// What the failed keyword asks for.
pub(super) fn expected(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(one) } => with_article(&one.to_string()),
        Kind::Type { kind: TypeKind::Multiple(many) } => {
            let names: Vec<String> =
                many.iter().map(|one| with_article(&one.to_string())).collect();
            names.join(" or ")
        }
        Kind::Enum { options } => one_of(options.as_array().into_iter().flatten()),
        Kind::Constant { expected_value } => quoted(expected_value),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {}", counted(*limit, "character")),
        Kind::MaxLength { limit } => format!("at most {}", counted(*limit, "character")),
        Kind::MinItems { limit } => format!("at least {}", counted(*limit, "item")),
        Kind::MaxItems { limit } => format!("at most {}", counted(*limit, "item")),
        Kind::AdditionalItems { limit } => format!("at most {limit} items"),
        Kind::MinProperties { limit } => format!("at least {}", counted(*limit, "field")),
        Kind::MaxProperties { limit } => format!("at most {}", counted(*limit, "field")),
        Kind::UniqueItems => "items that all differ".to_owned(),
        Kind::Pattern { pattern } => format!("a string that matches /{}/", beginning(pattern)),
        Kind::OneOfMultipleValid { .. } => "exactly one of its forms, not several".to_owned(),
        Kind::FalseSchema => "nothing".to_owned(),
        other => {
            let told = error.masked().to_string();
            format!("what its schema says (`{}`: {})", other.keyword(), beginning(&told))
        }
    }
}

/// A value in a few words.
pub(super) fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {value}"),
        Value::Number(_) => format!("the number {value}"),
        Value::String(_) => format!("the string {}", quoted(value)),
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(items) => format!("an array of length {}", items.len()),
        Value::Object(fields) if fields.is_empty() => "an object without fields".to_owned(),
        Value::Object(fields) => format!("an object with the {}", names(fields.keys())),
    }
}

/// A place as a JSON pointer.
pub(super) fn at(place: &str) -> String {
    if place.is_empty() { "the arguments".to_owned() } else { beginning(place) }
}

/// The pointer of a field.
pub(super) fn below(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The schema of a field of the object that an error is about.
pub(super) fn field<'s>(
    error: &ValidationError<'_>,
    schema: &'s Value,
    name: &str,
) -> Option<&'s Value> {
    siblings(error, schema)?.get("properties")?.get(name)
}

/// The values that are allowed.
pub(super) fn one_of<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let texts: Vec<String> = values.map(quoted).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        _ => format!("one of {}", listed(texts)),
    }
}

/// The schema whose keyword failed.
fn siblings<'s>(error: &ValidationError<'_>, schema: &'s Value) -> Option<&'s Value> {
    let (parent, _keyword) = error.schema_path().as_str().rsplit_once('/')?;
    schema.pointer(parent)
}

/// What a schema asks for, as far as that is said in a word.
fn summary(schema: &Value) -> String {
    if let Some(value) = schema.get("const") {
        return format!(", expected {}", quoted(value));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return format!(", expected {}", one_of(values.iter()));
    }
    let kind = schema.get("type").and_then(Value::as_str);
    kind.map_or(String::new(), |kind| format!(", expected {}", with_article(kind)))
}

fn unknown_fields(error: &ValidationError<'_>, schema: &Value, unexpected: &[String]) -> String {
    let known = siblings(error, schema).and_then(|schema| schema.get("properties"));
    let known: Vec<&str> = known
        .and_then(Value::as_object)
        .map_or_else(Vec::new, |fields| fields.keys().map(String::as_str).collect());
    let unknown = format!("unknown {}", names(unexpected.iter()));
    let near = match unexpected {
        [one] => nearest(one, known.iter().copied()),
        _ => Vec::new(),
    };
    match (near.first(), known.is_empty()) {
        (Some(near), _) => format!("{unknown}; `{near}` may be meant"),
        (None, true) => unknown,
        (None, false) => format!("{unknown}; it has the {}", names(known.into_iter())),
    }
}

fn counted(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

fn names(names: impl ExactSizeIterator<Item = impl AsRef<str>>) -> String {
    let word = if names.len() == 1 { "field" } else { "fields" };
    format!("{word} {}", listed(names.map(|name| format!("`{}`", beginning(name.as_ref())))))
}

fn listed(texts: impl IntoIterator<Item = String>) -> String {
    let mut texts = texts.into_iter();
    let mut list = texts.by_ref().take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    let more = texts.count();
    if more > 0 {
        list = format!("{list} and {more} more");
    }
    list
}

fn with_article(kind: &str) -> String {
    match kind {
        "null" => kind.to_owned(),
        "array" | "integer" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

/// A value as JSON; of a string no more than its beginning is written.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(beginning(text)).to_string(),
        other => beginning(&other.to_string()),
    }
}

fn beginning(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_QUOTE_BYTES.saturating_mul(2));
    cut(text.get(..end).unwrap_or_default().to_owned(), MAX_QUOTE_BYTES)
}
