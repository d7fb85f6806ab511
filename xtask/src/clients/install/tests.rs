//! Tests of `install`.

use super::*;

#[test]
fn versions_are_read_from_both_kinds_of_files() {
    let text = "autogen-ext[openai]==0.7.5\nopenai-agents==1.0\nopenai==2.0\n";
    assert_eq!(pinned(text, "openai").as_deref(), Some("2.0"));
    assert_eq!(pinned(text, "autogen-ext").as_deref(), Some("0.7.5"));
    assert_eq!(pinned(text, "anthropic"), None);
    let text = "{ \"dependencies\": { \"ai\": \"6.0\" } }";
    assert_eq!(pinned(text, "ai").as_deref(), Some("6.0"));
    let text = "# Python 3.12\nopenhands==1.16.0\n";
    assert_eq!(pinned(text, "openhands").as_deref(), Some("1.16.0"));
}

#[test]
fn a_file_can_ask_for_a_version_of_python() {
    assert_eq!(python_version("# Python 3.12"), Some("3.12"));
    assert_eq!(python_version("llm==0.36"), None);
}
