//! Checks a call's arguments against the JSON Schema of its tool, before the tool runs.

use std::fmt;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde_json::Value;
use thiserror::Error;

mod forms;
mod problem;

/// The longest schema of a tool in bytes. It is sent with every request: the largest seen in use have some
/// 20 KiB.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// The longest arguments of a call in bytes: twice what the longest replies of today's models hold.
pub const MAX_ARGUMENTS_BYTES: usize = 1 << 20;
/// The deepest nesting of arguments. A schema that refers to itself is followed as deep as they go.
pub const MAX_ARGUMENTS_DEPTH: usize = 64;
/// The problems that are told at once: more than that, and the model has misread the tool.
pub const MAX_PROBLEMS: usize = 5;
/// The longest text about problems in bytes.
pub const MAX_PROBLEM_BYTES: usize = 2 << 10;

/// The size of one compiled `pattern` in bytes; that of a long Unicode class counted many times is near it.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The schema of a tool's arguments, compiled once.
///
/// Patterns run in linear time, so those that need backtracking are refused. Nothing is ever read from the
/// network or from files. `format` is a hint for the model and not checked.
///
/// A schema comes from the program, not from the model: one that branches and refers to itself in every
/// branch can take a time that doubles with each level of the arguments.
pub struct ArgumentSchema {
    schema: Value,
    validator: Validator,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The arguments of a tool are an object.
    #[error("its root must say `\"type\": \"object\"`")]
    NotAnObject,
    /// Longer than [`MAX_SCHEMA_BYTES`].
    #[error("it has {found} bytes, the most is {MAX_SCHEMA_BYTES}")]
    TooLong {
        /// Its bytes.
        found: usize,
    },
    /// Not a JSON Schema, or one that needs what is not offered.
    #[error("{0}")]
    Invalid(String),
}

impl ArgumentSchema {
    /// Compiles a schema. Takes some 10 to 100 µs.
    ///
    /// # Errors
    ///
    /// What is wrong with the schema.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        let found = schema.to_string().len();
        if found > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLong { found });
        }
        let patterns =
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .with_retriever(Nowhere)
            .should_validate_formats(false)
            .build(schema)
            .map_err(|error| SchemaError::Invalid(invalid(&error)))?;
        Ok(Self { schema: schema.clone(), validator })
    }

    /// The arguments of a call, if they fit. No text at all is an object without fields.
    ///
    /// # Errors
    ///
    /// What does not fit, for the model: at most [`MAX_PROBLEMS`] lines, each with the place as a JSON
    /// pointer, what was expected and what was found; at most [`MAX_PROBLEM_BYTES`].
    pub fn check(&self, arguments: &str) -> Result<Value, String> {
        let value = parse(arguments)?;
        if self.validator.is_valid(&value) {
            return Ok(value);
        }
        let mut errors = self.validator.iter_errors(&value);
        let mut lines: Vec<String> =
            errors.by_ref().take(MAX_PROBLEMS).map(|e| problem::line(&e, &self.schema)).collect();
        let more = errors.count();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        Err(cut(lines.join("\n"), MAX_PROBLEM_BYTES))
    }
}

impl fmt::Debug for ArgumentSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArgumentSchema").field(&self.schema).finish()
    }
}

fn parse(arguments: &str) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let found = arguments.len();
    if found > MAX_ARGUMENTS_BYTES {
        return Err(format!(
            "the arguments have {found} bytes, the most is {MAX_ARGUMENTS_BYTES}; make several calls of it"
        ));
    }
    if depth(arguments) > MAX_ARGUMENTS_DEPTH {
        return Err(format!("the arguments are nested deeper than {MAX_ARGUMENTS_DEPTH} levels"));
    }
    let value: Value = serde_json::from_str(arguments).map_err(|error| {
        if error.is_eof() {
            format!(
                "the arguments end in the middle, after {found} bytes: {error}; \
                     if they were cut at the limit of the reply, make several smaller calls"
            )
        } else {
            format!("the arguments are not JSON: {error}")
        }
    })?;
    match value {
        Value::Object(_) => Ok(value),
        Value::String(_) => Err("the arguments are a string; \
             give the JSON object itself, not a text that contains it"
            .to_owned()),
        other => {
            Err(format!("the arguments must be a JSON object, found {}", problem::found(&other)))
        }
    }
}

/// The most brackets open at once, outside strings. Of text that is no JSON some number.
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

fn invalid(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().as_str();
    let place = if place.is_empty() { String::new() } else { format!("at `{place}`: ") };
    cut(format!("{place}{error}"), MAX_PROBLEM_BYTES)
}

/// Text of at most `limit` bytes, with a sign where it was cut.
pub(super) fn cut(mut text: String, limit: usize) -> String {
    const SIGN: &str = " …";
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(SIGN.len())));
        text.push_str(SIGN);
    }
    text
}

/// Refuses every reference that leads out of the schema, whatever the features of the library are.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("`{uri}` is outside the schema, and nothing is fetched").into())
    }
}
