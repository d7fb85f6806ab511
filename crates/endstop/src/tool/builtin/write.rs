//! `write_file`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Abandoned, Workspace, abandoned, blocking, cannot};
use crate::tool::{FunctionTool, ToolContext, ToolError};

#[derive(Deserialize, JsonSchema)]
struct WriteArguments {
    /// Path of the file, relative to the directory. Directories that are not there are made.
    path: String,
    /// The complete new contents of the file.
    content: String,
}

pub(super) fn tool(workspace: Workspace) -> FunctionTool {
    let description = "Creates a file, or replaces one as a whole.";
    FunctionTool::new(
        "write_file",
        description,
        move |arguments: WriteArguments, _: ToolContext| {
            let workspace = workspace.clone();
            blocking(move |abandoned| write(&workspace, &arguments, abandoned))
        },
    )
}

fn write(
    workspace: &Workspace,
    arguments: &WriteArguments,
    is_abandoned: &Abandoned,
) -> Result<String, ToolError> {
    let path = workspace.resolve(&arguments.path)?;
    let failed = |error| cannot("write", &path, workspace, &error);
    let before = match path.metadata() {
        Ok(about) if about.is_file() => Some(about),
        Ok(_) => {
            let shown = workspace.shown(&path);
            return Err(ToolError::Failed(format!("`{shown}` is there and is no regular file")));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let Some(directory) = path.parent() else {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let draft = Draft::new(directory, arguments.content.as_bytes()).map_err(failed)?;
    if let Some(about) = &before {
        fs::set_permissions(&draft.path, about.permissions()).map_err(failed)?;
    }
    // The last moment at which nothing has happened yet.
    if is_abandoned.is_set() {
        return Err(abandoned());
    }
    draft.put(&path).map_err(failed)?;
    let (shown, bytes) = (workspace.shown(&path), arguments.content.len());
    Ok(match before {
        Some(about) => format!("replaced `{shown}`: {bytes} bytes, before {}", about.len()),
        None => format!("created `{shown}`: {bytes} bytes"),
    })
}

/// A complete file next to the one that it will become; removed unless it did.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn new(directory: &Path, content: &[u8]) -> io::Result<Self> {
        let path = directory.join(format!(".endstop-{}.tmp", uuid::Uuid::now_v7()));
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let draft = Self { path };
        file.write_all(content)?;
        // Else a power cut could leave the new name with nothing in it.
        file.sync_all()?;
        Ok(draft)
    }

    fn put(self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename nothing has this name. A failure leaves a file that is named as what it is.
        let _ = fs::remove_file(&self.path);
    }
}
