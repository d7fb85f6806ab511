//! A test for each kind of tool, and for what limits them.

use serde_json::{Value, json};

use super::{CallSize, TOOL_KINDS, ToolKind, ToolPlace, ToolReads};
use crate::{Api, CallRequest, Edits, ToolLimit, ToolsOff};

const SIZE: CallSize = CallSize { input: 1_000, output: 500, window: 100_000 };

fn path(api: Api) -> &'static str {
    match api {
        Api::Chat => "/v1/chat/completions",
        Api::Responses => "/v1/responses",
        Api::Messages => "/v1/messages",
        Api::Gemini => "/v1beta/models/gemini-3-flash:generateContent",
    }
}

fn read(api: Api, request: &Value) -> CallRequest {
    api.dialect().read(path(api), request.to_string().as_bytes()).unwrap()
}

/// A name that a request has for a tool of a kind.
fn name_of(kind: &ToolKind) -> String {
    kind.pattern.replace('*', "20260101")
}

/// A request with a tool of a kind.
fn request_with(kind: &ToolKind) -> Value {
    let name = name_of(kind);
    match (kind.api, &*name) {
        (Api::Chat, "web_search_options" | "search_parameters") => json!({ name: {} }),
        (Api::Chat, "plugins") => json!({ "plugins": [{ "id": "web" }] }),
        (Api::Messages, "mcp_servers") => {
            json!({ "mcp_servers": [{ "url": "https://example.com" }] })
        }
        (Api::Gemini, _) => json!({ "tools": [{ name: {} }] }),
        _ => json!({ "tools": [{ "type": name, "name": "a" }] }),
    }
}

#[test]
fn each_kind_of_tool_adds_what_its_row_says() {
    for kind in TOOL_KINDS {
        let request = read(kind.api, &request_with(kind));
        assert_eq!(request.unbounded, [""; 0], "{kind:?}");
        let tools = &request.provider_tools;
        let ToolPlace::Provider { reads, cap, has_search_fee } = kind.place else {
            assert!(tools.is_empty(), "{kind:?}");
            continue;
        };
        let round = match reads {
            ToolReads::Nothing => 0,
            ToolReads::Request => 1_500,
            ToolReads::Window => 100_000,
            ToolReads::TwoWindows => 200_000,
        };
        let can_be_limited = cap != super::RunCap::None;
        assert_eq!(tools.can_be_limited(), can_be_limited, "{kind:?}");
        let runs = match (kind.api, reads) {
            _ if can_be_limited => 3,
            (Api::Messages, _) => 10,
            (_, ToolReads::Nothing) => 10,
            _ => 5,
        };
        assert_eq!(tools.added_input(3, SIZE), round * runs, "{kind:?}");
        assert_eq!(tools.searches(3), if has_search_fee { runs } else { 0 }, "{kind:?}");
        assert_eq!(tools.wanted_runs(), 5, "{kind:?}");
    }
}

#[test]
fn a_kind_of_tool_that_no_row_has_is_unbounded() {
    for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
        let tool = match api {
            Api::Gemini => json!([{ "time_travel": {} }]),
            _ => json!([{ "type": "time_travel", "name": "a" }]),
        };
        let request = read(api, &json!({ "tools": tool }));
        assert_eq!(request.unbounded, ["time_travel"], "{api:?}");
        assert!(request.provider_tools.is_empty(), "{api:?}");
    }
    let plugins = json!({ "plugins": [{ "id": "response-healing" }, { "id": "file-parser" }] });
    assert_eq!(read(Api::Chat, &plugins).unbounded, ["plugins: file-parser"]);
}

#[test]
fn the_runs_of_several_tools_add_up_to_what_the_api_allows_together() {
    let tool = |kind: &str, most: Value| json!({ "type": kind, "name": "s", "max_uses": most });
    let of = |tools: Value| read(Api::Messages, &json!({ "tools": tools })).provider_tools;
    let both = of(json!([tool("web_search_1", json!(2)), tool("web_fetch_1", Value::Null)]));
    assert_eq!((both.wanted_runs(), both.searches(5)), (5, 2));
    assert_eq!(both.added_input(5, SIZE), 700_000);
    assert_eq!(both.added_input(1, SIZE), 200_000);
    let many = of(json!([tool("web_search_1", json!(90)), tool("web_fetch_1", json!(90))]));
    assert_eq!(many.added_input(90, SIZE), 1_000_000, "Anthropic asks the model ten more times");
    let together = json!({ "max_tool_calls": 2,
        "tools": [{ "type": "web_search" }, { "type": "file_search" }, { "type": "mcp" }] });
    let together = read(Api::Responses, &together).provider_tools;
    assert_eq!((together.wanted_runs(), together.searches(9)), (2, 2));
    assert_eq!(together.added_input(9, SIZE), 200_000);
    let advisor = of(json!([tool("advisor_1", json!(90))]));
    assert_eq!(advisor.added_input(90, SIZE), 2_000_000, "each round has two readers");
}

#[test]
fn tools_that_are_admitted_by_name_are_not_bounded() {
    let request = json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" },
        { "type": "web_fetch_20250910", "name": "web_fetch" }] });
    let tools = read(Api::Messages, &request).provider_tools;
    assert_eq!(tools.name(), Some("web_search"));
    let rest = tools.without(|name| name == "web_search");
    assert_eq!((rest.name(), rest.searches(5)), (Some("web_fetch"), 0));
    assert!(rest.without(|name| name == "web_fetch").is_empty());
}

fn edited(api: Api, request: &Value, limit: ToolLimit) -> Value {
    let edits = Edits { provider_tools: limit, ..Edits::default() };
    let body = api.dialect().edit(request.to_string().as_bytes(), &edits).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn a_limit_of_runs_is_lowered_or_added_where_the_api_has_one() {
    let tool = |kind: &str, most: Option<u64>| match most {
        Some(most) => json!({ "type": kind, "name": "s", "max_uses": most }),
        None => json!({ "type": kind, "name": "s" }),
    };
    let messages = |search, fetch, bash| {
        json!({ "tools": [tool("web_search_1", search), tool("web_fetch_1", fetch), bash,
            { "name": "own", "max_uses": 7 }] })
    };
    let bash = json!({ "type": "bash_1", "name": "bash" });
    assert_eq!(
        edited(Api::Messages, &messages(Some(8), None, bash.clone()), ToolLimit::Runs(3)),
        messages(Some(3), Some(3), bash.clone()),
    );
    assert_eq!(
        edited(Api::Messages, &messages(Some(2), Some(3), bash.clone()), ToolLimit::Runs(3)),
        messages(Some(2), Some(3), bash),
    );
    let responses =
        |most: Value| json!({ "tools": [{ "type": "web_search" }], "max_tool_calls": most });
    for (before, after) in [(json!(9), 4), (json!(2), 2), (Value::Null, 4)] {
        let limit = ToolLimit::Runs(4);
        assert_eq!(edited(Api::Responses, &responses(before), limit), responses(json!(after)));
    }
    let without = json!({ "tools": [{ "type": "web_search" }] });
    assert_eq!(edited(Api::Responses, &without, ToolLimit::Runs(4)), responses(json!(4)));
}

#[test]
fn tools_of_the_provider_are_removed_without_the_others() {
    let request = json!({ "mcp_servers": [{ "url": "https://example.com", "name": "m" }],
        "tools": [{ "type": "web_search_1", "name": "web_search" }, { "name": "own" },
            { "type": "mcp_toolset", "mcp_server_name": "m" }, { "type": "bash_1", "name": "bash" }] });
    let rest = json!({ "tools": [{ "name": "own" }, { "type": "bash_1", "name": "bash" }] });
    assert_eq!(edited(Api::Messages, &request, ToolLimit::Remove), rest);
    let request =
        json!({ "tools": [{ "type": "function", "name": "own" }, { "type": "web_search" }] });
    let rest = json!({ "tools": [{ "type": "function", "name": "own" }] });
    assert_eq!(edited(Api::Responses, &request, ToolLimit::Remove), rest);
}

#[test]
fn a_request_that_is_about_tools_of_the_provider_does_not_go_without_them() {
    let search = json!({ "type": "web_search_1", "name": "web_search" });
    let own = json!({ "name": "own" });
    for (tools, choice, is_removable) in [
        (json!([search, own]), json!({ "type": "auto" }), true),
        (json!([search, own]), Value::Null, true),
        (json!([search, own]), json!({ "type": "any" }), false),
        (json!([search, own]), json!({ "type": "tool", "name": "web_search" }), false),
        (json!([search]), json!({ "type": "auto" }), false),
    ] {
        let request = json!({ "tools": tools, "tool_choice": choice });
        let read = read(Api::Messages, &request).provider_tools;
        assert_eq!(read.are_removable(), is_removable, "{request}");
    }
    for (tools, choice, is_removable) in [
        (json!([{ "type": "web_search" }, { "type": "function", "name": "own" }]), "auto", true),
        (
            json!([{ "type": "web_search" }, { "type": "function", "name": "own" }]),
            "required",
            false,
        ),
        (json!([{ "type": "web_search" }]), "auto", false),
    ] {
        let request = json!({ "tools": tools, "tool_choice": choice });
        let read = read(Api::Responses, &request).provider_tools;
        assert_eq!(read.are_removable(), is_removable, "{request}");
    }
}

#[test]
fn a_wrap_up_that_removes_all_tools_removes_those_of_the_provider_with_them() {
    let search = |api| match api {
        Api::Messages => json!({ "type": "web_search_1", "name": "web_search" }),
        _ => json!({ "type": "web_search" }),
    };
    for api in [Api::Messages, Api::Responses] {
        for limit in [ToolLimit::AsSent, ToolLimit::Runs(3), ToolLimit::Remove] {
            for tools_off in [ToolsOff::Forbid, ToolsOff::Remove, ToolsOff::Ask] {
                let request = json!({ "model": "m", "tools": [search(api), { "type": "custom", "name": "own" }] });
                let edits = Edits {
                    finish: Some("End now."),
                    tools_off,
                    provider_tools: limit,
                    ..Edits::default()
                };
                let body = api.dialect().edit(request.to_string().as_bytes(), &edits).unwrap();
                let edited: Value = serde_json::from_slice(&body).expect("valid JSON");
                let left = edited["tools"].as_array().map_or(0, Vec::len);
                let want = match (tools_off, limit) {
                    (ToolsOff::Remove, _) => 0,
                    (_, ToolLimit::Remove) => 1,
                    _ => 2,
                };
                assert_eq!(left, want, "{api:?} {limit:?} {tools_off:?}");
            }
        }
    }
}
