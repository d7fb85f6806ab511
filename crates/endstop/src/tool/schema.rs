//! Checks a call's arguments against the JSON Schema of its tool, before the tool runs.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use self::pattern::Patterns;

mod check;
mod compile;
mod forms;
mod number;
mod pattern;
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

/// The schema of a tool's arguments, compiled once.
///
/// It may use all of JSON Schema 2020-12 but `unevaluatedItems`, anchors (`$anchor`, `$dynamicRef`), a `$id`
/// inside, and references that lead out of it: a schema with one of these is refused rather than checked
/// in part. Of older drafts `definitions`, `dependencies`, `additionalItems` and `items` as an array are
/// checked too. `format`, `contentEncoding`, `contentMediaType` and `nullable` are hints for the model and
/// not checked, and as everywhere in JSON Schema a keyword that nobody knows means nothing.
///
/// Patterns run in linear time, so those that need backtracking are refused. Nothing is ever read from the
/// network or from files.
///
/// A schema comes from the program, not from the model: one that branches and refers to itself in every
/// branch can take a time that doubles with each level of the arguments.
pub struct ArgumentSchema {
    schema: Value,
    patterns: Patterns,
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
        let patterns = compile::patterns(schema)
            .map_err(|fault| SchemaError::Invalid(cut(fault.0, MAX_PROBLEM_BYTES)))?;
        Ok(Self { schema: schema.clone(), patterns })
    }

    /// The arguments of a call, if they fit. No text at all is an object without fields.
    ///
    /// # Errors
    ///
    /// What does not fit, for the model: at most [`MAX_PROBLEMS`] lines, each with the place as a JSON
    /// pointer, what was expected and what was found; at most [`MAX_PROBLEM_BYTES`].
    pub fn check(&self, arguments: &str) -> Result<Value, String> {
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

/// Text of at most `limit` bytes, with a sign where it was cut.
pub(super) fn cut(mut text: String, limit: usize) -> String {
    const SIGN: &str = " …";
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(SIGN.len())));
        text.push_str(SIGN);
    }
    text
}
