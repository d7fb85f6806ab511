//! Whether a value fits a schema, and what does not.
//!
//! It checks all keywords of JSON Schema 2020-12 but those that [`compile`](super::compile) refuses, and of older
//! drafts `items` as an array, `additionalItems`, `dependencies` and `definitions`. `format`, `contentEncoding`,
//! `contentMediaType` and `nullable` say something to the model and are not checked.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::number::{canonical, compared, is_integer, is_multiple, same};
use super::pattern::Patterns;
use super::referred;
use crate::limits::MAX_FORM_PROBLEMS;

/// Something of a value that does not fit.
#[derive(Debug)]
pub(super) struct Problem<'a> {
    /// The place, as a JSON pointer.
    pub place: String,
    /// The value there.
    pub found: &'a Value,
    /// The schema whose keyword failed.
    pub schema: &'a Map<String, Value>,
    pub failure: Failure<'a>,
}

/// The keyword that failed.
#[derive(Debug)]
pub(super) enum Failure<'a> {
    /// This field is missing.
    Missing(&'a str),
    /// These fields are not known.
    Unknown(Vec<&'a str>),
    /// It fits none of several forms: the problems with each.
    NoForm(Vec<Vec<Problem<'a>>>),
    /// There are more items than this.
    TooManyItems(usize),
    /// Nothing fits.
    Never,
    /// Any other keyword, with its value in the schema.
    Keyword(&'a str, &'a Value),
}

/// Problems, counted, and the first of them kept.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    pub kept: Vec<Problem<'a>>,
    pub count: usize,
    limit: usize,
}

impl Problems<'_> {
    fn keeping(limit: usize) -> Self {
        Self { kept: Vec::new(), count: 0, limit }
    }
}

/// A place in a value, written out only when it is reported.
#[derive(Clone, Copy)]
enum Place<'p> {
    Root,
    Field(&'p Self, &'p str),
    Item(&'p Self, usize),
}

impl Place<'_> {
    fn pointer(self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(parent, name) => super::below(&parent.pointer(), name),
            Self::Item(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

/// The problems that a value has with a schema, in the order of the keywords.
pub(super) fn problems<'a>(
    root: &'a Value,
    patterns: &'a Patterns,
    value: &'a Value,
    keep: usize,
) -> Problems<'a> {
    let mut problems = Problems::keeping(keep);
    Checker { root, patterns }.schema(root, value, Place::Root, &mut problems);
    problems
}

#[derive(Clone, Copy)]
struct Checker<'a> {
    root: &'a Value,
    patterns: &'a Patterns,
}

/// One schema at one value.
#[derive(Clone, Copy)]
struct Site<'a, 'p> {
    schema: &'a Map<String, Value>,
    value: &'a Value,
    place: Place<'p>,
}

impl<'a> Site<'a, '_> {
    fn report(self, failure: Failure<'a>, out: &mut Problems<'a>) {
        out.count = out.count.saturating_add(1);
        if out.kept.len() < out.limit {
            let Self { schema, value: found, place } = self;
            out.kept.push(Problem { place: place.pointer(), found, schema, failure });
        }
    }

    fn expect(self, fits: bool, keyword: &'a str, out: &mut Problems<'a>) {
        if !fits && let Some(limit) = self.schema.get(keyword) {
            self.report(Failure::Keyword(keyword, limit), out);
        }
    }
}

/// The schema `false` has no keywords to show.
fn no_keywords() -> &'static Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    &NONE
}

impl<'a> Checker<'a> {
    fn fits(self, schema: &'a Value, value: &'a Value) -> bool {
        let mut problems = Problems::keeping(0);
        self.schema(schema, value, Place::Root, &mut problems);
        problems.count == 0
    }

    fn schema(self, schema: &'a Value, value: &'a Value, place: Place<'_>, out: &mut Problems<'a>) {
        match schema {
            Value::Object(keywords) => {
                let site = Site { schema: keywords, value, place };
                for (keyword, limit) in keywords {
                    self.keyword(site, keyword, limit, out);
                }
            }
            Value::Bool(false) => {
                Site { schema: no_keywords(), value, place }.report(Failure::Never, out);
            }
            _ => {}
        }
    }

    fn keyword(
        self,
        site: Site<'a, '_>,
        keyword: &'a str,
        limit: &'a Value,
        out: &mut Problems<'a>,
    ) {
        match keyword {
            "type" => site.expect(has_type(site.value, limit), keyword, out),
            "enum" => {
                let mut options = limit.as_array().into_iter().flatten();
                site.expect(options.any(|option| same(option, site.value)), keyword, out);
            }
            "const" => site.expect(same(limit, site.value), keyword, out),
            "$ref" => {
                if let Some(schema) = limit.as_str().and_then(|to| referred(self.root, to)) {
                    self.schema(schema, site.value, site.place, out);
                }
            }
            "allOf" => {
                for schema in limit.as_array().into_iter().flatten() {
                    self.schema(schema, site.value, site.place, out);
                }
            }
            "anyOf" | "oneOf" => self.forms(site, keyword, limit, out),
            "not" => site.expect(!self.fits(limit, site.value), keyword, out),
            "if" => {
                let then = if self.fits(limit, site.value) { "then" } else { "else" };
                if let Some(schema) = site.schema.get(then) {
                    self.schema(schema, site.value, site.place, out);
                }
            }
            _ => match site.value {
                Value::Number(number) => {
                    if let Value::Number(limit) = limit {
                        let fits = number_fits(keyword, number, limit);
                        site.expect(fits, keyword, out);
                    }
                }
                Value::String(text) => {
                    site.expect(self.text_fits(keyword, text, limit), keyword, out)
                }
                Value::Array(items) => self.array(site, items, keyword, limit, out),
                Value::Object(fields) => self.object(site, fields, keyword, limit, out),
                Value::Null | Value::Bool(_) => {}
            },
        }
    }

    fn forms(self, site: Site<'a, '_>, keyword: &'a str, limit: &'a Value, out: &mut Problems<'a>) {
        let mut all = Vec::new();
        let mut fitting = 0_usize;
        for schema in limit.as_array().into_iter().flatten() {
            let mut problems = Problems::keeping(MAX_FORM_PROBLEMS);
            self.schema(schema, site.value, site.place, &mut problems);
            if problems.count == 0 {
                fitting = fitting.saturating_add(1);
                if keyword == "anyOf" {
                    return;
                }
            }
            all.push(problems.kept);
        }
        match fitting {
            0 => site.report(Failure::NoForm(all), out),
            1 => {}
            _ => site.expect(false, keyword, out),
        }
    }

    fn text_fits(self, keyword: &str, text: &str, limit: &Value) -> bool {
        match keyword {
            "minLength" => at_least(text.chars().count(), limit),
            "maxLength" => at_most(text.chars().count(), limit),
            "pattern" => limit.as_str().is_none_or(|pattern| self.patterns.is_match(pattern, text)),
            _ => true,
        }
    }

    fn array(
        self,
        site: Site<'a, '_>,
        items: &'a [Value],
        keyword: &'a str,
        limit: &'a Value,
        out: &mut Problems<'a>,
    ) {
        match keyword {
            "minItems" => site.expect(at_least(items.len(), limit), keyword, out),
            "maxItems" => site.expect(at_most(items.len(), limit), keyword, out),
            "uniqueItems" => {
                let mut seen = BTreeSet::new();
                let differ = items.iter().all(|item| seen.insert(canonical(item)));
                site.expect(limit != &Value::Bool(true) || differ, keyword, out);
            }
            "contains" => {
                let count = items.iter().filter(|item| self.fits(limit, item)).count();
                let bound = |keyword| site.schema.get(keyword);
                if !bound("minContains").map_or(count > 0, |least| at_least(count, least)) {
                    let keyword =
                        if bound("minContains").is_some() { "minContains" } else { keyword };
                    site.expect(false, keyword, out);
                }
                let few = bound("maxContains").is_none_or(|most| at_most(count, most));
                site.expect(few, "maxContains", out);
            }
            "prefixItems" | "items" if limit.is_array() => {
                let schemas = limit.as_array().into_iter().flatten();
                for (index, (schema, item)) in schemas.zip(items).enumerate() {
                    self.schema(schema, item, Place::Item(&site.place, index), out);
                }
            }
            "items" => self.items_after(site, items, "prefixItems", limit, out),
            "additionalItems" if site.schema.get("items").is_some_and(Value::is_array) => {
                self.items_after(site, items, "items", limit, out);
            }
            _ => {}
        }
    }

    /// Checks the items that have no separate schema in the array of schemas `listed`.
    fn items_after(
        self,
        site: Site<'a, '_>,
        items: &'a [Value],
        listed: &str,
        schema: &'a Value,
        out: &mut Problems<'a>,
    ) {
        let first = site.schema.get(listed).and_then(Value::as_array).map_or(0, Vec::len);
        if schema == &Value::Bool(false) {
            if items.len() > first {
                site.report(Failure::TooManyItems(first), out);
            }
            return;
        }
        for (index, item) in items.iter().enumerate().skip(first) {
            self.schema(schema, item, Place::Item(&site.place, index), out);
        }
    }

    fn object(
        self,
        site: Site<'a, '_>,
        fields: &'a Map<String, Value>,
        keyword: &'a str,
        limit: &'a Value,
        out: &mut Problems<'a>,
    ) {
        let by_name = limit.as_object().into_iter().flatten();
        match keyword {
            "minProperties" => site.expect(at_least(fields.len(), limit), keyword, out),
            "maxProperties" => site.expect(at_most(fields.len(), limit), keyword, out),
            "required" => missing(site, fields, limit, out),
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                for (_, then) in by_name.filter(|(name, _)| fields.contains_key(*name)) {
                    match then {
                        Value::Array(_) => missing(site, fields, then, out),
                        schema => self.schema(schema, site.value, site.place, out),
                    }
                }
            }
            "properties" => {
                for (name, schema) in by_name {
                    if let Some(value) = fields.get(name) {
                        self.schema(schema, value, Place::Field(&site.place, name), out);
                    }
                }
            }
            "patternProperties" => {
                for (name, value) in fields {
                    for (pattern, schema) in limit.as_object().into_iter().flatten() {
                        if self.patterns.is_match(pattern, name) {
                            self.schema(schema, value, Place::Field(&site.place, name), out);
                        }
                    }
                }
            }
            "propertyNames" => {
                let fits = |name: &String| self.fits_briefly(limit, &Value::from(name.as_str()));
                site.expect(fields.keys().all(fits), keyword, out);
            }
            "additionalProperties" => {
                let others = fields.iter().filter(|(name, _)| !self.is_listed(site.schema, name));
                self.others(site, others, limit, out);
            }
            "unevaluatedProperties" => {
                let mut known = BTreeSet::new();
                self.evaluated(site.schema, site.value, fields, &mut known);
                let others = fields.iter().filter(|(name, _)| !known.contains(name.as_str()));
                self.others(site, others, limit, out);
            }
            _ => {}
        }
    }

    /// Like [`fits`](Self::fits), for a value that lives shorter than the schema.
    fn fits_briefly(self, schema: &Value, value: &Value) -> bool {
        let checker: Checker<'_> = self;
        checker.fits(schema, value)
    }

    fn others(
        self,
        site: Site<'a, '_>,
        others: impl Iterator<Item = (&'a String, &'a Value)>,
        schema: &'a Value,
        out: &mut Problems<'a>,
    ) {
        if schema == &Value::Bool(false) {
            let unknown: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
            if !unknown.is_empty() {
                site.report(Failure::Unknown(unknown), out);
            }
            return;
        }
        for (name, value) in others {
            self.schema(schema, value, Place::Field(&site.place, name), out);
        }
    }

    /// Whether `properties` or `patternProperties` speak of a field.
    fn is_listed(self, schema: &Map<String, Value>, name: &str) -> bool {
        let names = |keyword| schema.get(keyword).and_then(Value::as_object);
        let is_match = |pattern: &String| self.patterns.is_match(pattern, name);
        names("properties").is_some_and(|names| names.contains_key(name))
            || names("patternProperties").is_some_and(|patterns| patterns.keys().any(is_match))
    }

    /// Collects the fields of which a schema, or one that it applies to the same value, speaks.
    fn evaluated(
        self,
        schema: &'a Map<String, Value>,
        value: &'a Value,
        fields: &'a Map<String, Value>,
        known: &mut BTreeSet<&'a str>,
    ) {
        let speaks_of_all = schema.contains_key("additionalProperties");
        let listed = fields.keys().filter(|name| speaks_of_all || self.is_listed(schema, name));
        known.extend(listed.map(String::as_str));
        let mut applied: Vec<&'a Value> = Vec::new();
        for (keyword, limit) in schema {
            match keyword.as_str() {
                "$ref" => applied.extend(limit.as_str().and_then(|to| referred(self.root, to))),
                "allOf" | "anyOf" | "oneOf" => {
                    applied.extend(limit.as_array().into_iter().flatten())
                }
                "if" => {
                    applied.push(limit);
                    let then = if self.fits(limit, value) { "then" } else { "else" };
                    applied.extend(schema.get(then));
                }
                "dependentSchemas" => {
                    let by_name = limit.as_object().into_iter().flatten();
                    let there = by_name.filter(|(name, _)| fields.contains_key(*name));
                    applied.extend(there.map(|(_, schema)| schema));
                }
                _ => {}
            }
        }
        for inner in applied {
            if let Some(keywords) = inner.as_object().filter(|_| self.fits(inner, value)) {
                if keywords.contains_key("unevaluatedProperties") {
                    known.extend(fields.keys().map(String::as_str));
                }
                self.evaluated(keywords, value, fields, known);
            }
        }
    }
}

fn missing<'a>(
    site: Site<'a, '_>,
    fields: &Map<String, Value>,
    names: &'a Value,
    out: &mut Problems<'a>,
) {
    for name in names.as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            site.report(Failure::Missing(name), out);
        }
    }
}

fn has_type(value: &Value, types: &Value) -> bool {
    let is = |name: &Value| match (name.as_str(), value) {
        (Some("null"), Value::Null)
        | (Some("boolean"), Value::Bool(_))
        | (Some("number"), Value::Number(_))
        | (Some("string"), Value::String(_))
        | (Some("array"), Value::Array(_))
        | (Some("object"), Value::Object(_)) => true,
        (Some("integer"), Value::Number(number)) => is_integer(number),
        _ => false,
    };
    types.as_array().map_or_else(|| is(types), |types| types.iter().any(is))
}

fn number_fits(keyword: &str, number: &serde_json::Number, limit: &serde_json::Number) -> bool {
    let order = compared(number, limit);
    match keyword {
        "minimum" => order != Some(Ordering::Less),
        "maximum" => order != Some(Ordering::Greater),
        "exclusiveMinimum" => order == Some(Ordering::Greater),
        "exclusiveMaximum" => order == Some(Ordering::Less),
        "multipleOf" => is_multiple(number, limit),
        _ => true,
    }
}

/// A bound as a whole number; `2.0` is one.
fn bound(limit: &Value) -> Option<usize> {
    limit.as_u64().and_then(|bound| usize::try_from(bound).ok()).or_else(|| {
        // `Display` writes a float without an exponent.
        format!("{:.0}", limit.as_f64()?).parse().ok()
    })
}

fn at_least(count: usize, limit: &Value) -> bool {
    // A bound that no number here reaches is not met.
    bound(limit).is_some_and(|least| count >= least)
}

fn at_most(count: usize, limit: &Value) -> bool {
    bound(limit).is_none_or(|most| count <= most)
}
