//! The tools that the command `endstop agent` offers, each behind its own switch.
//!
//! The file tools are confined to one directory ([`Workspace`]). `bash` is not: it runs any command with the rights,
//! the environment and the network of the program, and only begins in that directory.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use super::nearest::nearest;
use super::{Tool, ToolError};

mod bash;
mod list;
mod output;
mod read;
mod search;
mod workspace;
mod write;

pub use crate::limits::MAX_PATH_BYTES;
pub use workspace::{Workspace, WorkspaceError};

/// A built-in tool.
///
/// ```
/// use endstop::tool::builtin::Builtin;
///
/// assert_eq!(Builtin::parse("read,list")?, [Builtin::Read, Builtin::List]);
/// assert!(Builtin::Bash.changes() && !Builtin::Read.changes());
/// assert!(Builtin::parse("read,telnet").is_err());
/// # Ok::<(), endstop::tool::builtin::UnknownBuiltin>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    /// `read_file`: a text file, or some lines of it.
    Read,
    /// `list_directory`: the entries of a directory.
    List,
    /// `search`: the lines below a directory that match a pattern.
    Search,
    /// `write_file`: creates or replaces a file, all or nothing.
    Write,
    /// `bash`: a shell command, which is not confined to the directory.
    Bash,
}

impl Builtin {
    /// All of them, the harmless first.
    pub const ALL: [Self; 5] = [Self::Read, Self::List, Self::Search, Self::Write, Self::Bash];

    /// Returns the switch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Search => "search",
            Self::Write => "write",
            Self::Bash => "bash",
        }
    }

    /// Returns the name that the model sees.
    #[must_use]
    pub const fn tool_name(self) -> &'static str {
        match self {
            Self::Read => "read_file",
            Self::List => "list_directory",
            Self::Search => "search",
            Self::Write => "write_file",
            Self::Bash => "bash",
        }
    }

    /// Returns whether it can change something.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Bash)
    }

    /// Reads names with commas between them, such as `read,list`. A tool named twice is one; text without
    /// any name is none.
    ///
    /// # Errors
    ///
    /// Returns the first name that is none, with those that are.
    pub fn parse(names: &str) -> Result<Vec<Self>, UnknownBuiltin> {
        if names.trim().is_empty() {
            return Ok(Vec::new());
        }
        let mut tools = Vec::new();
        for name in names.split(',') {
            let tool: Self = name.parse()?;
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        Ok(tools)
    }

    fn make(self, workspace: Workspace) -> Arc<dyn Tool> {
        match self {
            Self::Read => Arc::new(read::tool(workspace)),
            Self::List => Arc::new(list::tool(workspace)),
            Self::Search => Arc::new(search::tool(workspace)),
            Self::Write => Arc::new(write::tool(workspace)),
            Self::Bash => Arc::new(bash::tool(workspace)),
        }
    }
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Builtin {
    type Err = UnknownBuiltin;

    /// Takes the switch and the name that the model sees.
    fn from_str(text: &str) -> Result<Self, UnknownBuiltin> {
        let name = text.trim();
        let is_meant = |tool: &Self| tool.name() == name || tool.tool_name() == name;
        Self::ALL.into_iter().find(is_meant).ok_or_else(|| UnknownBuiltin { name: name.to_owned() })
    }
}

/// A name that is no built-in tool.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}", self.text())]
pub struct UnknownBuiltin {
    /// The given name.
    pub name: String,
}

impl UnknownBuiltin {
    fn text(&self) -> String {
        let names = Builtin::ALL.map(Builtin::name);
        let all = format!("the tools are `{}`", names.join("`, `"));
        if self.name.is_empty() {
            return format!("a tool's name is missing before or after a comma; {all}");
        }
        match nearest(&self.name, names).first() {
            Some(near) => format!("unknown tool `{}`; did you mean `{near}`? {all}", self.name),
            None => format!("unknown tool `{}`; {all}", self.name),
        }
    }
}

/// Returns the tools, in the order given, over one directory.
#[must_use]
pub fn tools(workspace: &Workspace, wanted: &[Builtin]) -> Vec<Arc<dyn Tool>> {
    wanted.iter().map(|tool| tool.make(workspace.clone())).collect()
}

/// Signals to work on another thread that its future was dropped, or its run aborted.
#[derive(Clone, Debug, Default)]
struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct SetOnDrop(Abandoned);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

/// Runs work that waits for a disk on a thread where it does not block others. When the future is dropped, the work
/// is notified and ends soon.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Abandoned) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let abandoned = Abandoned::default();
    let guard = SetOnDrop(abandoned.clone());
    let result = tokio::task::spawn_blocking(move || work(&abandoned)).await;
    drop(guard);
    result.unwrap_or_else(|error| Err(ToolError::from(error)))
}

fn abandoned() -> ToolError {
    ToolError::failed("the call was abandoned")
}

fn cannot(what: &str, path: &Path, workspace: &Workspace, error: &std::io::Error) -> ToolError {
    ToolError::Failed(format!("cannot {what} `{}`: {error}", workspace.shown(path)))
}
