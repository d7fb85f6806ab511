//! A value that fits none of several forms (`anyOf`, `oneOf`).
//!
//! Examples are optional values, and enums whose forms differ in a field with a constant. A model is helped by the
//! problems of the form that it meant, not by those of all forms.

use serde_json::Value;

use super::check::{Failure, Problem};
use super::problem::{at, below, expected, field, found, line as problem_line, one_of};

/// The form is excluded by a field with another constant.
const OTHER_TAG: usize = 10_000;
/// The form is of another type altogether.
const OTHER_TYPE: usize = 1_000;

/// The problems with each form.
type Forms<'a> = [Vec<Problem<'a>>];

pub(super) fn line(problem: &Problem<'_>, forms: &Forms<'_>) -> String {
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
        Some(first) => problem_line(first),
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
