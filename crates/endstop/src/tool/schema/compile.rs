//! Reads a schema before it is used: every keyword has the form that it needs, every reference leads
//! somewhere, and nothing asks for what [`check`](super::check) cannot answer.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::pattern::Patterns;
use super::referred;

/// The names of JSON types.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Keywords of JSON Schema that would be wrong to leave out: a schema that has one is refused.
const UNSUPPORTED: [&str; 8] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "extends",
    "unevaluatedItems",
];

/// The schema of a keyword's value.
#[derive(Clone, Copy)]
enum KeywordValue {
    Schema,
    Schemas,
    /// One schema, or (before 2020-12) one for each item.
    SchemaOrSchemas,
    SchemaByName,
    SchemaByPattern,
    /// Before 2019-09: a schema, or the names that are then required.
    Dependencies,
    Names,
    NamesByName,
    Number,
    Positive,
    Count,
    Flag,
    Pattern,
    Type,
    Enum,
    Reference,
}

fn form(keyword: &str) -> Option<KeywordValue> {
    Some(match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "else"
        | "if"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedProperties" => KeywordValue::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => KeywordValue::Schemas,
        "items" => KeywordValue::SchemaOrSchemas,
        "$defs" | "definitions" | "dependentSchemas" | "properties" => KeywordValue::SchemaByName,
        "patternProperties" => KeywordValue::SchemaByPattern,
        "dependencies" => KeywordValue::Dependencies,
        "required" => KeywordValue::Names,
        "dependentRequired" => KeywordValue::NamesByName,
        "exclusiveMaximum" | "exclusiveMinimum" | "maximum" | "minimum" => KeywordValue::Number,
        "multipleOf" => KeywordValue::Positive,
        "maxContains" | "maxItems" | "maxLength" | "maxProperties" | "minContains" | "minItems"
        | "minLength" | "minProperties" => KeywordValue::Count,
        "uniqueItems" => KeywordValue::Flag,
        "pattern" => KeywordValue::Pattern,
        "type" => KeywordValue::Type,
        "enum" => KeywordValue::Enum,
        "$ref" => KeywordValue::Reference,
        _ => return None,
    })
}

/// The error in a schema, for people, with the place as a JSON pointer.
#[derive(Debug)]
pub(super) struct SchemaFault(pub(super) String);

/// Reads a whole schema; returns its patterns.
///
/// # Errors
///
/// Returns the first thing that is wrong with it.
pub(super) fn patterns(schema: &Value) -> Result<Patterns, SchemaFault> {
    let mut reader =
        SchemaReader { root: schema, patterns: Patterns::default(), seen: HashSet::new() };
    reader.schema(schema, "")?;
    Circles { root: schema, states: HashMap::new(), parts: Vec::new() }.look(schema)?;
    Ok(reader.patterns)
}

struct SchemaReader<'s> {
    root: &'s Value,
    patterns: Patterns,
    /// By address: what a reference names is read once.
    seen: HashSet<*const Value>,
}

impl<'s> SchemaReader<'s> {
    fn schema(&mut self, schema: &'s Value, place: &str) -> Result<(), SchemaFault> {
        if !self.seen.insert(std::ptr::from_ref(schema)) {
            return Ok(());
        }
        let keywords = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(keywords) => keywords,
            other => return Err(wrong(place, "a schema", other)),
        };
        for (keyword, value) in keywords {
            let place = super::below(place, keyword);
            let is_inner_id = keyword == "$id" && !std::ptr::eq(schema, self.root);
            if UNSUPPORTED.contains(&keyword.as_str()) || is_inner_id {
                return Err(SchemaFault(format!(
                    "at `{place}`: `{keyword}` is not checked; take it out, or check it in the tool"
                )));
            }
            if let Some(form) = form(keyword) {
                self.value(form, value, &place)?;
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        form: KeywordValue,
        value: &'s Value,
        place: &str,
    ) -> Result<(), SchemaFault> {
        match form {
            KeywordValue::Schema => self.schema(value, place),
            KeywordValue::Schemas => match value.as_array() {
                Some(schemas) if !schemas.is_empty() => self.each(schemas, place),
                _ => Err(wrong(place, "an array of schemas", value)),
            },
            KeywordValue::SchemaOrSchemas => match value.as_array() {
                Some(schemas) => self.each(schemas, place),
                None => self.schema(value, place),
            },
            KeywordValue::SchemaByName => self.by_name(value, place),
            KeywordValue::SchemaByPattern => {
                for pattern in object(value, place)?.keys() {
                    self.pattern(pattern, &super::below(place, pattern))?;
                }
                self.by_name(value, place)
            }
            KeywordValue::Dependencies => {
                for (name, value) in object(value, place)? {
                    let place = super::below(place, name);
                    match value {
                        Value::Array(_) => names(value, &place)?,
                        _ => self.schema(value, &place)?,
                    }
                }
                Ok(())
            }
            KeywordValue::Names => names(value, place),
            KeywordValue::NamesByName => {
                let mut fields = object(value, place)?.iter();
                fields.try_for_each(|(name, value)| names(value, &super::below(place, name)))
            }
            KeywordValue::Pattern => match value.as_str() {
                Some(pattern) => self.pattern(pattern, place),
                None => Err(wrong(place, "a regular expression", value)),
            },
            KeywordValue::Reference => self.reference(value, place),
            KeywordValue::Number
            | KeywordValue::Positive
            | KeywordValue::Count
            | KeywordValue::Flag
            | KeywordValue::Type
            | KeywordValue::Enum => plain(form, value, place),
        }
    }

    fn each(&mut self, schemas: &'s [Value], place: &str) -> Result<(), SchemaFault> {
        let mut numbered = schemas.iter().enumerate();
        numbered.try_for_each(|(n, schema)| self.schema(schema, &format!("{place}/{n}")))
    }

    fn by_name(&mut self, value: &'s Value, place: &str) -> Result<(), SchemaFault> {
        let mut fields = object(value, place)?.iter();
        fields.try_for_each(|(name, schema)| self.schema(schema, &super::below(place, name)))
    }

    fn pattern(&mut self, pattern: &str, place: &str) -> Result<(), SchemaFault> {
        self.patterns.add(pattern).map_err(|error| SchemaFault(format!("at `{place}`: {error}")))
    }

    fn reference(&mut self, value: &'s Value, place: &str) -> Result<(), SchemaFault> {
        let Some(reference) = value.as_str() else {
            return Err(wrong(place, "a reference", value));
        };
        if !reference.starts_with('#') {
            return Err(SchemaFault(format!(
                "at `{place}`: `{reference}` is outside the schema, and nothing is fetched"
            )));
        }
        match referred(self.root, reference) {
            Some(schema) => self.schema(schema, place),
            None => Err(SchemaFault(format!("at `{place}`: nothing is at `{reference}`"))),
        }
    }
}

/// Keywords whose value is no schema.
fn plain(form: KeywordValue, value: &Value, place: &str) -> Result<(), SchemaFault> {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_count = |value: &Value| value.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0);
    let (fits, expected) = match form {
        KeywordValue::Number => (value.is_number(), "a number"),
        KeywordValue::Positive => (value.as_f64().is_some_and(|n| n > 0.0), "a number above 0"),
        KeywordValue::Count => (is_count(value), "a whole number"),
        KeywordValue::Flag => (value.is_boolean(), "true or false"),
        KeywordValue::Enum => (value.is_array(), "an array"),
        _ => match value.as_array() {
            Some(types) => (!types.is_empty() && types.iter().all(is_type), "types"),
            None => (is_type(value), "a type"),
        },
    };
    if fits { Ok(()) } else { Err(wrong(place, expected, value)) }
}

fn names(value: &Value, place: &str) -> Result<(), SchemaFault> {
    match value.as_array() {
        Some(names) if names.iter().all(Value::is_string) => Ok(()),
        _ => Err(wrong(place, "an array of names", value)),
    }
}

fn object<'s>(value: &'s Value, place: &str) -> Result<&'s Map<String, Value>, SchemaFault> {
    value.as_object().ok_or_else(|| wrong(place, "an object", value))
}

fn wrong(place: &str, expected: &str, found: &Value) -> SchemaFault {
    let found = super::problem::found(found);
    SchemaFault(format!("at `{place}`: expected {expected}, found {found}"))
}

/// Looks for a schema that refers to itself for one and the same value: checking it would never end.
struct Circles<'s> {
    root: &'s Value,
    /// By address: whether every schema for the same value was read.
    states: HashMap<*const Value, bool>,
    /// Schemas of parts of the value. They may refer to a schema that is still being read.
    parts: Vec<&'s Value>,
}

impl<'s> Circles<'s> {
    fn look(&mut self, schema: &'s Value) -> Result<(), SchemaFault> {
        self.parts.push(schema);
        while let Some(schema) = self.parts.pop() {
            if !self.states.contains_key(&std::ptr::from_ref(schema)) {
                self.follow(schema)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, schema: &'s Value) -> Result<(), SchemaFault> {
        let Some(keywords) = schema.as_object() else { return Ok(()) };
        match self.states.get(&std::ptr::from_ref(schema)) {
            Some(true) => return Ok(()),
            Some(false) => {
                return Err(SchemaFault("a schema refers to itself without an end".to_owned()));
            }
            None => {}
        }
        self.states.insert(std::ptr::from_ref(schema), false);
        for (keyword, value) in keywords {
            for inner in in_place(keyword, value, self.root) {
                self.follow(inner)?;
            }
            self.parts.extend(of_parts(keyword, value));
        }
        self.states.insert(std::ptr::from_ref(schema), true);
        Ok(())
    }
}

/// The schemas that a keyword applies to the value itself.
fn in_place<'s>(keyword: &str, value: &'s Value, root: &'s Value) -> Vec<&'s Value> {
    match keyword {
        "$ref" => value.as_str().and_then(|to| referred(root, to)).into_iter().collect(),
        "allOf" | "anyOf" | "oneOf" => value.as_array().into_iter().flatten().collect(),
        "not" | "if" | "then" | "else" => vec![value],
        "dependentSchemas" | "dependencies" => {
            value.as_object().into_iter().flat_map(Map::values).collect()
        }
        _ => Vec::new(),
    }
}

/// The schemas that a keyword applies to a part of the value, and those that are only named.
fn of_parts<'s>(keyword: &str, value: &'s Value) -> Vec<&'s Value> {
    match form(keyword) {
        Some(KeywordValue::SchemaByName | KeywordValue::SchemaByPattern) => {
            value.as_object().into_iter().flat_map(Map::values).collect()
        }
        Some(KeywordValue::Schema | KeywordValue::Schemas | KeywordValue::SchemaOrSchemas) => {
            match value {
                Value::Array(schemas) => schemas.iter().collect(),
                one => vec![one],
            }
        }
        _ => Vec::new(),
    }
}
