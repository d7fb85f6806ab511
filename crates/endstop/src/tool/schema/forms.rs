//! A value that fits none of several forms (`anyOf`, `oneOf`).
//!
//! Such are optional values, and enums whose forms are told apart by a field with a constant. A model is
//! helped by what is wrong with the form that it meant, not by what is wrong with all of them.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::problem::{at, below, expected, field, found, line as problem_line, one_of};

/// The form is told apart by a field that says another.
const OTHER_TAG: usize = 10_000;
/// The form is of another type altogether.
const OTHER_TYPE: usize = 1_000;

type Errors = Vec<ValidationError<'static>>;

pub(super) fn line(error: &ValidationError<'_>, context: &[Errors], schema: &Value) -> String {
    let place = error.instance_path().as_str();
    let weighed = context.iter().map(|form| (distance(form, place, schema), form));
    let Some((distance, nearest)) = weighed.min_by_key(|(distance, _)| *distance) else {
        return format!("{}: fits no form", at(place));
    };
    if distance >= OTHER_TAG {
        return wrong_tag(nearest, context, schema);
    }
    if distance >= OTHER_TYPE {
        let all = context.iter().filter_map(|form| form.first());
        let mut kinds: Vec<String> = all.map(expected).collect();
        kinds.dedup();
        let kinds = kinds.join(" or ");
        return format!("{}: expected {kinds}, found {}", at(place), found(error.instance()));
    }
    match nearest.first() {
        Some(first) => problem_line(first, schema),
        None => format!("{}: fits no form", at(place)),
    }
}

/// How far a value is from a form.
fn distance(form: &Errors, place: &str, schema: &Value) -> usize {
    let weight = |error: &ValidationError<'_>| match error.kind() {
        _ if tag(error, schema).is_some() => OTHER_TAG,
        Kind::Type { .. } | Kind::Enum { .. } if error.instance_path().as_str() == place => {
            OTHER_TYPE
        }
        _ => 1,
    };
    form.iter().map(weight).fold(0, usize::saturating_add)
}

/// The constant that a field should have had, and the field's place.
fn tag<'v>(error: &'v ValidationError<'_>, schema: &'v Value) -> Option<(String, &'v Value)> {
    let place = error.instance_path().as_str();
    match error.kind() {
        Kind::Constant { expected_value } => Some((place.to_owned(), expected_value)),
        Kind::Required { property } => {
            let name = property.as_str()?;
            let constant = field(error, schema, name)?.get("const")?;
            Some((below(place, name), constant))
        }
        _ => None,
    }
}

/// The field that tells the forms apart says none of them: all that it may say.
fn wrong_tag(nearest: &Errors, context: &[Errors], schema: &Value) -> String {
    let tags = |form: &'_ Errors| -> Option<(String, Value, String)> {
        form.iter().find_map(|error| {
            let (place, value) = tag(error, schema)?;
            let found = match error.kind() {
                Kind::Required { .. } => "nothing".to_owned(),
                _ => found(error.instance()),
            };
            Some((place, value.clone(), found))
        })
    };
    let Some((place, _, found)) = tags(nearest) else { return String::new() };
    let all = context.iter().filter_map(tags).filter(|(other, ..)| *other == place);
    let values: Vec<Value> = all.map(|(_, value, _)| value).collect();
    format!("{}: expected {}, found {found}", at(&place), one_of(values.iter()))
}
