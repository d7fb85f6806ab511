//! `list_directory`.

use std::fs::DirEntry;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Abandoned, Workspace, abandoned, blocking, cannot};
use crate::limits::{MAX_LISTED_ENTRIES, MAX_SORTED_ENTRIES};
use crate::tool::{FunctionTool, ToolContext, ToolError};

#[derive(Deserialize, JsonSchema)]
struct ListArguments {
    /// Path of the directory, relative to the directory of the tools. Default: that directory itself.
    path: Option<String>,
}

pub(super) fn tool(workspace: Workspace) -> FunctionTool {
    let description = "Lists a directory in order of the names: directories end with `/`, symbolic links with `@`, \
                       and files have their size in bytes.";
    FunctionTool::new(
        "list_directory",
        description,
        move |arguments: ListArguments, _: ToolContext| {
            let workspace = workspace.clone();
            blocking(move |abandoned| list(&workspace, &arguments, abandoned))
        },
    )
}

fn list(
    workspace: &Workspace,
    arguments: &ListArguments,
    is_abandoned: &Abandoned,
) -> Result<String, ToolError> {
    let path = workspace.resolve(arguments.path.as_deref().unwrap_or("."))?;
    let failed = |error| cannot("list", &path, workspace, &error);
    let mut entries: Vec<DirEntry> = Vec::new();
    let mut unread = 0_usize;
    for entry in path.read_dir().map_err(failed)? {
        if is_abandoned.is_set() {
            return Err(abandoned());
        }
        let entry = entry.map_err(failed)?;
        if entries.len() < MAX_SORTED_ENTRIES {
            entries.push(entry);
        } else {
            unread = unread.saturating_add(1);
        }
    }
    if entries.is_empty() {
        return Ok("[the directory is empty]".to_owned());
    }
    entries.sort_by_key(DirEntry::file_name);
    let mut lines: Vec<String> = entries.iter().take(MAX_LISTED_ENTRIES).map(line).collect();
    let more = entries.len().saturating_sub(MAX_LISTED_ENTRIES).saturating_add(unread);
    if more > 0 {
        lines.push(format!("[{more} more]"));
    }
    Ok(lines.join("\n"))
}

fn line(entry: &DirEntry) -> String {
    let name = entry.file_name().display().to_string();
    // A name may hold a line break, which would look like two entries.
    let name = name.replace(|c: char| c.is_control(), "\u{fffd}");
    // Neither follows a link: what it leads to may lie outside.
    match (entry.file_type(), entry.metadata()) {
        (Ok(kind), _) if kind.is_dir() => format!("{name}/"),
        (Ok(kind), _) if kind.is_symlink() => format!("{name}@"),
        (_, Ok(about)) => format!("{name}  {}", about.len()),
        _ => name,
    }
}
