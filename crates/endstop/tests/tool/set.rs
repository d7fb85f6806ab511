//! Sets of tools: names, limits, schemas.

use std::sync::Arc;

use endstop::tool::{
    FunctionTool, MAX_TOOL_DESCRIPTION_BYTES, MAX_TOOL_NAME_BYTES, MAX_TOOLS, SchemaError, Tool,
    ToolSet, ToolSetError,
};
use schemars::JsonSchema;
use serde::Deserialize;

fn tool(name: &str) -> Arc<dyn Tool> {
    Arc::new(FunctionTool::without_arguments(name, "", |_| async { Ok(()) }))
}

#[test]
fn tools_keep_their_order_and_are_found_by_name() {
    let set = ToolSet::new([tool("write"), tool("read"), tool("Read")]).unwrap();
    let names: Vec<&str> = set.specs().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["write", "read", "Read"]);
    assert_eq!(set.get("read").unwrap().tool.spec().name, "read");
    assert_eq!(set.get("Read").unwrap().tool.spec().name, "Read");
    assert!(set.get("READ").is_none());
    assert_eq!(set.nearest("raed"), ["read", "Read"]);
    assert!(set.nearest("weather").is_empty());
    assert_eq!((set.len(), set.iter().len(), set.is_empty()), (3, 3, false));
}

#[test]
fn names_that_a_provider_refuses_are_refused() {
    let longest = "a".repeat(MAX_TOOL_NAME_BYTES);
    for name in ["a", "A_b-9", longest.as_str()] {
        assert!(ToolSet::new([tool(name)]).is_ok(), "{name}");
    }
    let longer = "a".repeat(MAX_TOOL_NAME_BYTES + 1);
    for name in ["", "a b", "a.b", "é", "a/b", longer.as_str()] {
        let error = ToolSet::new([tool(name)]).unwrap_err();
        assert_eq!(error, ToolSetError::Name { name: name.to_owned() });
    }
}

#[test]
fn a_name_is_taken_once() {
    let mut set = ToolSet::new([tool("a")]).unwrap();
    assert_eq!(set.push(tool("a")), Err(ToolSetError::Twice { name: "a".to_owned() }));
    assert_eq!(set.len(), 1);
}

#[test]
fn no_more_tools_than_a_request_takes() {
    let mut set = ToolSet::new((0..MAX_TOOLS).map(|n| tool(&format!("t{n}")))).unwrap();
    assert_eq!(set.push(tool("more")), Err(ToolSetError::TooMany));
}

#[derive(Deserialize, JsonSchema)]
enum Word {
    Yes,
    No,
}

#[test]
fn arguments_that_are_no_object_are_refused_with_the_tools_name() {
    let word = FunctionTool::new("word", "", |_: Word, _| async { Ok(()) });
    let error = ToolSet::new([Arc::new(word) as Arc<dyn Tool>]).unwrap_err();
    assert_eq!(
        error,
        ToolSetError::Schema { name: "word".to_owned(), error: SchemaError::NotAnObject }
    );
    assert!(error.to_string().contains("`word`"));
}

#[test]
fn descriptions_are_bounded() {
    let text = "x".repeat(MAX_TOOL_DESCRIPTION_BYTES + 1);
    let long = FunctionTool::without_arguments("a", text, |_| async { Ok(()) });
    let error = ToolSet::new([Arc::new(long) as Arc<dyn Tool>]).unwrap_err();
    assert!(matches!(error, ToolSetError::Description { .. }));
}
