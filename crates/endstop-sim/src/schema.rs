//! A value that satisfies a JSON schema, different at every step where the schema lets it be.
//!
//! It knows what tools of agents use. Patterns and conditions (`if`, `not`) are not followed.

use serde_json::{Map, Number, Value, json};

use crate::limits::{MAX_MADE, MAX_SCHEMA_DEPTH, MAX_VALUES, NAME_CHARS};

/// A value for a schema; `step` makes it differ.
pub(crate) fn example(schema: &Value, step: u64) -> Value {
    Maker { root: schema, step, values: 0 }.value(schema, "", 0)
}

struct Maker<'s> {
    root: &'s Value,
    step: u64,
    values: usize,
}

impl<'s> Maker<'s> {
    fn value(&mut self, schema: &'s Value, name: &str, depth: usize) -> Value {
        self.values = self.values.saturating_add(1);
        let schema = self.resolved(schema);
        if depth > MAX_SCHEMA_DEPTH || self.values > MAX_VALUES {
            return Value::Null;
        }
        if let Some(value) = schema.get("const") {
            return self.copied(value);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.one_of(values);
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return self.all_of(schema, parts, name, depth);
        }
        for key in ["anyOf", "oneOf"] {
            let variants = schema.get(key).and_then(Value::as_array);
            if let Some(variant) = variants.and_then(|variants| self.best_variant(variants)) {
                let value = self.value(variant, name, depth.saturating_add(1));
                return self.with_properties(schema, value, depth);
            }
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "integer" | "number" => number(schema, self.step),
            "boolean" => Value::Bool(self.step % 2 == 1),
            "null" => Value::Null,
            _ => Value::String(string(schema, name, self.step)),
        }
    }

    /// The target of a `$ref` within the schema.
    fn resolved(&self, schema: &'s Value) -> &'s Value {
        let mut schema = schema;
        for _ in 0..MAX_SCHEMA_DEPTH {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let Some(pointer) = reference.and_then(|text| text.strip_prefix('#')) else { break };
            match self.root.pointer(pointer) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn one_of(&mut self, values: &[Value]) -> Value {
        let count = values.len().max(1) as u64;
        let at = usize::try_from(self.step % count).unwrap_or_default();
        values.get(at).map_or(Value::Null, |value| self.copied(value))
    }

    /// A value of the schema itself; a large one counts as many, because it may be requested often.
    fn copied(&mut self, value: &Value) -> Value {
        self.values = self.values.saturating_add(value.to_string().len() / 16);
        value.clone()
    }

    /// The first variant that is not `null`.
    fn best_variant(&self, variants: &'s [Value]) -> Option<&'s Value> {
        let is_null = |schema: &&'s Value| kind(self.resolved(schema)) == "null";
        variants.iter().find(|schema| !is_null(schema)).or_else(|| variants.first())
    }

    /// The members of all parts together; the last part that is not an object, if none is.
    fn all_of(&mut self, schema: &'s Value, parts: &'s [Value], name: &str, depth: usize) -> Value {
        let mut members = Map::new();
        let mut other = None;
        for part in parts {
            match self.value(part, name, depth.saturating_add(1)) {
                Value::Object(more) => members.extend(more),
                value => other = Some(value),
            }
        }
        match other {
            Some(value) if members.is_empty() && schema.get("properties").is_none() => value,
            _ => self.with_properties(schema, Value::Object(members), depth),
        }
    }

    /// Adds the properties that a schema requires outside its variants.
    fn with_properties(&mut self, schema: &'s Value, value: Value, depth: usize) -> Value {
        match value {
            Value::Object(mut members) if schema.get("properties").is_some() => {
                if let Value::Object(more) = self.object(schema, depth) {
                    members.extend(more);
                }
                Value::Object(members)
            }
            value => value,
        }
    }

    /// The required members, and the first of the others if none is required.
    fn object(&mut self, schema: &'s Value, depth: usize) -> Value {
        let mut members = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let names: Vec<&str> = match required {
            Some(names) if !names.is_empty() => names.iter().filter_map(Value::as_str).collect(),
            _ => properties.iter().flat_map(|all| all.keys()).map(String::as_str).take(1).collect(),
        };
        for name in names {
            let property = properties.and_then(|all| all.get(name)).unwrap_or(&Value::Null);
            let value = self.value(property, name, depth.saturating_add(1));
            members.insert(name.to_owned(), value);
        }
        Value::Object(members)
    }

    fn array(&mut self, schema: &'s Value, name: &str, depth: usize) -> Value {
        let firsts = schema.get("prefixItems").and_then(Value::as_array);
        let first_count = firsts.map_or(0, Vec::len);
        let least = size(schema, "minItems").unwrap_or(1).max(first_count);
        let most = size(schema, "maxItems").unwrap_or(MAX_MADE).min(MAX_MADE);
        let count = least.min(most);
        let items = schema.get("items").unwrap_or(&Value::Null);
        let must_differ = schema.get("uniqueItems").and_then(Value::as_bool) == Some(true);
        let mut elements = Vec::new();
        let step = self.step;
        for at in 0..count {
            let item = firsts.and_then(|firsts| firsts.get(at)).unwrap_or(items);
            elements.push(self.value(item, name, depth.saturating_add(1)));
            if must_differ {
                self.step = self.step.wrapping_add(1);
            }
        }
        self.step = step;
        Value::Array(elements)
    }
}

/// The first type that is not `null`; Gemini writes them in capitals. An object may be one by its members alone.
fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => {
            let names = || names.iter().filter_map(Value::as_str);
            names().find(|name| *name != "null").or_else(|| names().next())
        }
        _ => None,
    };
    match named {
        Some("object" | "OBJECT") => "object",
        Some("array" | "ARRAY") => "array",
        Some("integer" | "INTEGER") => "integer",
        Some("number" | "NUMBER") => "number",
        Some("boolean" | "BOOLEAN") => "boolean",
        Some("null" | "NULL") => "null",
        Some(_) => "string",
        None if schema.get("properties").is_some() => "object",
        None if schema.get("items").is_some() => "array",
        None => "string",
    }
}

fn size(schema: &Value, key: &str) -> Option<usize> {
    // Gemini writes 64-bit numbers as texts.
    let value = schema.get(key)?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    Some(usize::try_from(number).unwrap_or(usize::MAX))
}

/// A number that differs with the step, within the bounds; an integer multiple of its unit, if possible.
fn number(schema: &Value, step: u64) -> Value {
    let unit = limit(schema, "multipleOf").filter(|unit| *unit > 0.0).unwrap_or(1.0);
    let bound = |key: &str| limit(schema, key).map(|bound| bound / unit);
    let least =
        [bound("minimum").map(f64::ceil), bound("exclusiveMinimum").map(|low| low.floor() + 1.0)];
    let most =
        [bound("maximum").map(f64::floor), bound("exclusiveMaximum").map(|high| high.ceil() - 1.0)];
    let least = least.into_iter().flatten().reduce(f64::max);
    let most = most.into_iter().flatten().reduce(f64::min);
    let step = step as f64;
    let units = match (least, most) {
        // Only a fraction fits between them.
        (Some(least), Some(most)) if least > most => (least + most) / 2.0,
        (Some(least), Some(most)) => least + step % (most - least + 1.0),
        (Some(least), None) if step < least => least + step,
        (None, Some(most)) if step > most => most - step,
        _ => step,
    };
    let value = units * unit;
    // Doubles hold whole numbers exactly up to here.
    if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
        return json!(value as i64);
    }
    Number::from_f64(value).map_or_else(|| json!(0), Value::Number)
}

fn limit(schema: &Value, key: &str) -> Option<f64> {
    schema.get(key).and_then(Value::as_f64).filter(|limit| limit.is_finite())
}

/// A text with the step in it.
fn string(schema: &Value, name: &str, step: u64) -> String {
    let minute = step % 60;
    match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => return format!("2030-01-01T00:{minute:02}:00Z"),
        Some("date") => return format!("2030-01-{:02}", step % 28 + 1),
        Some("time") => return format!("00:{minute:02}:00Z"),
        Some("duration") => return format!("PT{step}S"),
        Some("email") => return format!("step{step}@example.com"),
        Some("uri" | "uri-reference") => return format!("https://example.com/{step}"),
        Some("uuid") => {
            return format!("00000000-0000-4000-8000-{:012x}", step & 0xffff_ffff_ffff);
        }
        Some("ipv4") => return format!("192.0.2.{}", step % 256),
        _ => {}
    }
    let mut text = match name {
        "" => format!("step {step}"),
        name => format!("{} of step {step}", name.chars().take(NAME_CHARS).collect::<String>()),
    };
    let most = size(schema, "maxLength").unwrap_or(MAX_MADE);
    let length = text.chars().count();
    if length > most {
        // The end has the step's number.
        text = text.chars().skip(length.saturating_sub(most)).collect();
    }
    let least = size(schema, "minLength").unwrap_or_default().min(MAX_MADE);
    let missing = least.saturating_sub(text.chars().count());
    text.extend(std::iter::repeat_n('.', missing));
    text
}

#[cfg(test)]
mod tests;
