//! Checks a call's arguments against the JSON Schema of its tool, before the tool runs.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use self::pattern::Patterns;

use crate::limits::{
    MAX_ARGUMENTS_BYTES, MAX_ARGUMENTS_DEPTH, MAX_PROBLEM_BYTES, MAX_PROBLEMS, MAX_SCHEMA_BYTES,
};

mod check;
mod compile;
mod number;
mod pattern;
mod problem;

/// The schema of a tool's arguments, compiled once.
///
/// It may use all of JSON Schema 2020-12 but `unevaluatedItems`, anchors (`$anchor`, `$dynamicRef`), a `$id` inside,
/// and references that lead out of it: a schema with one of these is refused rather than checked in part. Of older
/// drafts `definitions`, `dependencies`, `additionalItems` and `items` as an array are checked too. `format`,
/// `contentEncoding`, `contentMediaType` and `nullable` are hints for the model and not checked, and as everywhere in
/// JSON Schema an unknown keyword means nothing.
///
/// Patterns run in linear time, so those that need backtracking are refused. Nothing is ever read from the
/// network or from files.
///
/// A schema comes from the program, not from the model: one that branches and refers to itself in every
/// branch can take a time that doubles with each level of the arguments.
///
/// ```
/// use endstop::tool::ArgumentSchema;
/// use serde_json::json;
///
/// let schema = ArgumentSchema::new(&json!({
///     "type": "object",
///     "properties": { "path": { "type": "string" } },
///     "required": ["path"],
/// }))?;
/// assert!(schema.check(r#"{ "path": "a.txt" }"#).is_ok());
/// assert!(schema.check(r#"{ "path": 7 }"#).is_err());
/// # Ok::<(), endstop::tool::SchemaError>(())
/// ```
pub struct ArgumentSchema {
    schema: Value,
    patterns: Patterns,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The arguments of a tool are an object.
    #[error("its root must have `\"type\": \"object\"`")]
    NotAnObject,
    /// Longer than [`MAX_SCHEMA_BYTES`].
    #[error("it has {found} bytes; at most {MAX_SCHEMA_BYTES} are allowed")]
    TooLong {
        /// Its bytes.
        found: usize,
    },
    /// Not a JSON Schema, or one with an unsupported feature.
    #[error("{0}")]
    Invalid(String),
}

/// Why a call does not fit, in words for the model: at most [`MAX_PROBLEM_BYTES`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// Longer than [`MAX_ARGUMENTS_BYTES`].
    #[error(
        "the arguments have {found} bytes; at most {MAX_ARGUMENTS_BYTES} are allowed: make several smaller calls"
    )]
    TooLong {
        /// Their bytes.
        found: usize,
    },
    /// Nested deeper than [`MAX_ARGUMENTS_DEPTH`].
    #[error("the arguments are nested deeper than {MAX_ARGUMENTS_DEPTH} levels")]
    TooDeep,
    /// Cut in the middle.
    #[error(
        "the arguments end in the middle, after {found} bytes: {problem}; \
         if the output cap cut them off, make several smaller calls"
    )]
    Cut {
        /// Their bytes.
        found: usize,
        /// The error of the JSON reader.
        problem: String,
    },
    /// Not JSON; the error of the JSON reader.
    #[error("the arguments are not JSON: {0}")]
    NotJson(String),
    /// A JSON text within a JSON string.
    #[error("the arguments are a string; give the JSON object itself, not a text that contains it")]
    Quoted,
    /// Another value than an object.
    #[error("the arguments must be a JSON object, found {0}")]
    NotAnObject(String),
    /// At most [`MAX_PROBLEMS`] lines, each with the place as a JSON pointer, what was expected and what was found.
    #[error("{0}")]
    Mismatch(String),
}

impl ArgumentSchema {
    /// Compiles a schema. Takes about 10 to 100 µs.
    ///
    /// # Errors
    ///
    /// Returns the error says which part of the schema is wrong.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        let found = schema.to_string().len();
        if found > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLong { found });
        }
        let patterns = compile::patterns(schema)
            .map_err(|fault| SchemaError::Invalid(cut(fault.0, MAX_PROBLEM_BYTES)))?;
        Ok(Self { schema: schema.clone(), patterns })
    }

    /// Returns the arguments of a call, if they fit. No text at all is an object without fields.
    ///
    /// # Errors
    ///
    /// Returns [`ArgumentsError`]: what does not fit.
    pub fn check(&self, arguments: &str) -> Result<Value, ArgumentsError> {
        let value = parse(arguments)?;
        let problems = check::problems(&self.schema, &self.patterns, &value, MAX_PROBLEMS);
        if problems.count == 0 {
            return Ok(value);
        }
        let mut lines: Vec<String> = problems.kept.iter().map(problem::line).collect();
        let more = problems.count.saturating_sub(lines.len());
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        Err(ArgumentsError::Mismatch(cut(lines.join("\n"), MAX_PROBLEM_BYTES)))
    }
}

impl fmt::Debug for ArgumentSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArgumentSchema").field(&self.schema).finish()
    }
}

fn parse(arguments: &str) -> Result<Value, ArgumentsError> {
    if arguments.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let found = arguments.len();
    if found > MAX_ARGUMENTS_BYTES {
        return Err(ArgumentsError::TooLong { found });
    }
    if depth(arguments) > MAX_ARGUMENTS_DEPTH {
        return Err(ArgumentsError::TooDeep);
    }
    match serde_json::from_str(arguments) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(Value::String(_)) => Err(ArgumentsError::Quoted),
        Ok(other) => Err(ArgumentsError::NotAnObject(problem::found(&other))),
        Err(error) if error.is_eof() => {
            Err(ArgumentsError::Cut { found, problem: error.to_string() })
        }
        Err(error) => Err(ArgumentsError::NotJson(error.to_string())),
    }
}

/// The deepest nesting of brackets, outside strings. For text that is not JSON, an arbitrary number.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                open = open.saturating_add(1);
                deepest = deepest.max(open);
            }
            b'}' | b']' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Text of at most `limit` bytes, with a mark if it was cut.
pub(super) fn cut(mut text: String, limit: usize) -> String {
    const SIGN: &str = " …";
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(SIGN.len())));
        text.push_str(SIGN);
    }
    text
}

/// The pointer of a field.
fn below(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The schema that a reference names.
fn referred<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}
