//! The tools of an agent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::nearest::nearest;
use super::{ArgumentSchema, SchemaError, Tool, ToolSpec};
use crate::limits::{MAX_TOOL_DESCRIPTION_BYTES, MAX_TOOL_NAME_BYTES, MAX_TOOLS};

/// Tools in the order in which they were given, found by name. Names are case-sensitive.
///
/// ```
/// use std::sync::Arc;
/// use endstop::tool::builtin::{Builtin, Workspace, tools};
/// use endstop::tool::{ToolSet, ToolSetError};
///
/// let workspace = Workspace::new(".")?;
/// let mut set = ToolSet::new(tools(&workspace, &[Builtin::Read, Builtin::Search]))?;
/// assert_eq!(set.specs()[0].name, "read_file");
/// assert!(set.get("search").is_some() && set.get("bash").is_none());
/// let again = Arc::clone(&set.get("search").unwrap().tool);
/// assert!(matches!(set.push(again), Err(ToolSetError::Twice { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ToolSet {
    entries: Vec<ToolEntry>,
    specs: Vec<ToolSpec>,
    by_name: BTreeMap<String, usize>,
}

/// A tool with its compiled schema.
///
/// See the example of [`ToolSet`].
pub struct ToolEntry {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Checks the arguments of its calls.
    pub schema: ArgumentSchema,
}

impl fmt::Debug for ToolEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolEntry").field("spec", self.tool.spec()).finish_non_exhaustive()
    }
}

/// Why tools cannot be offered to a model.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolSetError {
    /// More than [`MAX_TOOLS`].
    #[error("more than {MAX_TOOLS} tools")]
    TooMany,
    /// Providers would refuse the name.
    #[error(
        "the tool name `{name}` must have 1 to {MAX_TOOL_NAME_BYTES} of the characters `A-Z a-z 0-9 _ -`"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Two tools of one name.
    #[error("two tools have the name `{name}`")]
    Twice {
        /// The name.
        name: String,
    },
    /// Longer than [`MAX_TOOL_DESCRIPTION_BYTES`].
    #[error(
        "the description of the tool `{name}` has {found} bytes; at most {MAX_TOOL_DESCRIPTION_BYTES} are allowed"
    )]
    Description {
        /// The tool.
        name: String,
        /// The description's bytes.
        found: usize,
    },
    /// A schema that cannot be used.
    #[error("the argument schema of the tool `{name}` cannot be used: {error}")]
    Schema {
        /// The tool.
        name: String,
        /// Why.
        error: SchemaError,
    },
}

impl ToolSet {
    /// Checks names and compiles schemas.
    ///
    /// # Errors
    ///
    /// Returns the first tool that cannot be offered, and why.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolSetError> {
        let mut set = Self::default();
        for tool in tools {
            set.push(tool)?;
        }
        Ok(set)
    }

    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// Returns the reason if the tool cannot be offered. The set is then unchanged.
    pub fn push(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolSetError> {
        if self.entries.len() >= MAX_TOOLS {
            return Err(ToolSetError::TooMany);
        }
        // Kept from here on: a tool must not change what was checked.
        let spec = tool.spec().clone();
        let name = spec.name.clone();
        if !is_tool_name(&name) {
            return Err(ToolSetError::Name { name });
        }
        if self.by_name.contains_key(&name) {
            return Err(ToolSetError::Twice { name });
        }
        let found = spec.description.len();
        if found > MAX_TOOL_DESCRIPTION_BYTES {
            return Err(ToolSetError::Description { name, found });
        }
        let schema = match ArgumentSchema::new(&spec.parameters) {
            Ok(schema) => schema,
            Err(error) => return Err(ToolSetError::Schema { name, error }),
        };
        self.by_name.insert(name, self.entries.len());
        self.entries.push(ToolEntry { tool, schema });
        self.specs.push(spec);
        Ok(())
    }

    /// Returns the descriptions that the model sees, in the order of the tools.
    #[must_use]
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Returns the tool with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolEntry> {
        self.entries.get(*self.by_name.get(name)?)
    }

    /// Returns the tools, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ToolEntry> {
        self.entries.iter()
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the names that an unknown name may have meant, the nearest first; at most three.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        nearest(name, self.specs.iter().map(|spec| spec.name.as_str()))
    }
}

/// Returns whether all providers take this as a tool's name.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_TOOL_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
}
