//! Calls of tools, and temporary directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use endstop::message::ToolCall;
use endstop::tool::builtin::{Builtin, Workspace, tools};
use endstop::tool::{Tool, ToolContext, ToolError, ToolOutput};
use serde_json::Value;

pub(crate) async fn call(tool: Arc<dyn Tool>, arguments: &str) -> Result<ToolOutput, ToolError> {
    let call = ToolCall {
        id: "1".to_owned(),
        tool: tool.spec().name.clone(),
        arguments: arguments.to_owned(),
    };
    tool.call(call, ToolContext::detached()).await
}

pub(crate) fn failure(result: Result<ToolOutput, ToolError>) -> String {
    match result {
        Err(ToolError::Failed(message)) => message,
        other => panic!("not a failure: {other:?}"),
    }
}

/// A directory `inside` next to a directory `outside`, both gone at the end.
pub(crate) struct Directories {
    base: PathBuf,
}

impl Directories {
    pub(crate) fn new() -> Self {
        let base = std::env::temp_dir().join(format!("endstop-tool-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(base.join("inside")).unwrap();
        std::fs::create_dir_all(base.join("outside")).unwrap();
        Self { base: base.canonicalize().unwrap() }
    }

    pub(crate) fn inside(&self) -> PathBuf {
        self.base.join("inside")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.base.join("outside")
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::new(self.inside()).unwrap()
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.base.join("inside").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn tool(&self, which: Builtin) -> Arc<dyn Tool> {
        tools(&self.workspace(), &[which]).remove(0)
    }

    /// The result of a built-in tool.
    pub(crate) async fn run(&self, which: Builtin, arguments: Value) -> Result<String, ToolError> {
        call(self.tool(which), &arguments.to_string()).await.map(|output| output.text)
    }

    pub(crate) async fn failure(&self, which: Builtin, arguments: Value) -> String {
        failure(call(self.tool(which), &arguments.to_string()).await)
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// The names in a directory, in order.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
