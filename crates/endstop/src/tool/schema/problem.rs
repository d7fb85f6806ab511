//! The ways in which a value does not fit a schema, in words that a model can act on.

use serde_json::{Map, Value};

use super::check::{Failure, Problem};
use super::{below, cut};
use crate::limits::{MAX_LISTED, MAX_PROBLEM_LINE_BYTES, MAX_QUOTE_BYTES};
use crate::tool::nearest::nearest;

/// The form is excluded by a field with another constant.
const OTHER_TAG: usize = 10_000;
/// The form is of another type altogether.
const OTHER_TYPE: usize = 1_000;

/// The problems with each form.
type Forms<'a> = [Vec<Problem<'a>>];

/// One problem: place, expectation, finding.
pub(super) fn line(problem: &Problem<'_>) -> String {
    let Problem { place, found: value, schema, failure } = problem;
    let text = match failure {
        Failure::Missing(name) => {
            let expected = field(schema, name).map_or(String::new(), summary);
            format!("{}: missing{expected}", at(&below(place, name)))
        }
        Failure::Unknown(names) => format!("{}: {}", at(place), unknown_fields(schema, names)),
        Failure::NoForm(forms) => no_form(problem, forms),
        _ => format!("{}: expected {}, found {}", at(place), expected(problem), found(value)),
    };
    cut(text, MAX_PROBLEM_LINE_BYTES)
}

/// The problem with a value that fits none of several forms (`anyOf`, `oneOf`).
///
/// Examples are optional values, and enums whose forms differ in a field with a constant. A model is helped by the
/// problems of the form that it meant, not by those of all forms.
fn no_form(problem: &Problem<'_>, forms: &Forms<'_>) -> String {
    let place = problem.place.as_str();
    let weighed = forms.iter().map(|form| (distance(form, place), form));
    let Some((distance, nearest)) = weighed.min_by_key(|(distance, _)| *distance) else {
        return format!("{}: fits no form", at(place));
    };
    if distance >= OTHER_TAG {
        return wrong_tag(nearest, forms);
    }
    if distance >= OTHER_TYPE {
        let all = forms.iter().filter_map(|form| form.first());
        let mut kinds: Vec<String> = all.map(expected).collect();
        kinds.dedup();
        let kinds = kinds.join(" or ");
        return format!("{}: expected {kinds}, found {}", at(place), found(problem.found));
    }
    match nearest.first() {
        Some(first) => line(first),
        None => format!("{}: fits no form", at(place)),
    }
}

/// How far a value is from a form.
fn distance(form: &[Problem<'_>], place: &str) -> usize {
    let weight = |problem: &Problem<'_>| match &problem.failure {
        _ if tag(problem).is_some() => OTHER_TAG,
        Failure::Keyword("type" | "enum", _) if problem.place == place => OTHER_TYPE,
        _ => 1,
    };
    form.iter().map(weight).fold(0, usize::saturating_add)
}

/// The constant that a field should have had, and the field's place.
fn tag<'a>(problem: &Problem<'a>) -> Option<(String, &'a Value)> {
    match &problem.failure {
        Failure::Keyword("const", value) => Some((problem.place.clone(), value)),
        Failure::Missing(name) => {
            let constant = field(problem.schema, name)?.get("const")?;
            Some((below(&problem.place, name), constant))
        }
        _ => None,
    }
}

/// The field that selects the form has none of its constants: lists all of them.
fn wrong_tag(nearest: &[Problem<'_>], forms: &Forms<'_>) -> String {
    let tags = |form: &[Problem<'_>]| -> Option<(String, Value, String)> {
        form.iter().find_map(|problem| {
            let (place, value) = tag(problem)?;
            let found = match problem.failure {
                Failure::Missing(_) => "nothing".to_owned(),
                _ => found(problem.found),
            };
            Some((place, value.clone(), found))
        })
    };
    let Some((place, _, found)) = tags(nearest) else { return String::new() };
    let all = forms.iter().filter_map(|form| tags(form)).filter(|(other, ..)| *other == place);
    let values: Vec<Value> = all.map(|(_, value, _)| value).collect();
    format!("{}: expected {}, found {found}", at(&place), one_of(values.iter()))
}

/// The requirement of the failed keyword.
fn expected(problem: &Problem<'_>) -> String {
    let (keyword, limit) = match &problem.failure {
        Failure::Keyword(keyword, limit) => (*keyword, *limit),
        Failure::TooManyItems(most) => return format!("at most {most} items"),
        Failure::Never => return "nothing".to_owned(),
        Failure::Missing(name) => return format!("the field `{}`", beginning(name)),
        Failure::Unknown(_) => return "no other fields".to_owned(),
        Failure::NoForm(_) => return "one of its forms".to_owned(),
    };
    match keyword {
        "type" => match limit {
            Value::Array(types) => {
                let names: Vec<String> = types.iter().map(kind).collect();
                names.join(" or ")
            }
            one => kind(one),
        },
        "enum" => one_of(limit.as_array().into_iter().flatten()),
        "const" => quoted(limit),
        "minimum" => format!("at least {limit}"),
        "maximum" => format!("at most {limit}"),
        "exclusiveMinimum" => format!("more than {limit}"),
        "exclusiveMaximum" => format!("less than {limit}"),
        "multipleOf" => format!("a multiple of {limit}"),
        "minLength" => format!("at least {}", counted(limit, "character")),
        "maxLength" => format!("at most {}", counted(limit, "character")),
        "minItems" => format!("at least {}", counted(limit, "item")),
        "maxItems" => format!("at most {}", counted(limit, "item")),
        "minProperties" => format!("at least {}", counted(limit, "field")),
        "maxProperties" => format!("at most {}", counted(limit, "field")),
        "uniqueItems" => "items that all differ".to_owned(),
        "pattern" => {
            format!("a string that matches /{}/", beginning(limit.as_str().unwrap_or_default()))
        }
        "oneOf" => "exactly one of its forms, not several".to_owned(),
        other => format!("what its schema says (`{other}`: {})", beginning(&limit.to_string())),
    }
}

fn kind(name: &Value) -> String {
    with_article(name.as_str().unwrap_or_default())
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
fn at(place: &str) -> String {
    if place.is_empty() { "the arguments".to_owned() } else { beginning(place) }
}

/// The schema of a field of an object.
fn field<'s>(schema: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

/// The values that are allowed.
fn one_of<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let texts: Vec<String> = values.map(quoted).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        _ => format!("one of {}", listed(texts)),
    }
}

/// The requirements of a schema, if a word can express them.
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

fn unknown_fields(schema: &Map<String, Value>, unexpected: &[&str]) -> String {
    let known = schema.get("properties");
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

fn counted(number: &Value, thing: &str) -> String {
    if number.as_f64() == Some(1.0) { format!("1 {thing}") } else { format!("{number} {thing}s") }
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
