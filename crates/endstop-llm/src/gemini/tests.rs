//! Tests of Gemini.

use serde_json::{Value, json};

use crate::sse::SseEvent;
use crate::tests::{check_ends, dialect, edited, read, streamed};
use crate::{Api, CallRequest, Edits, OutputContract, Thread};

fn parsed(request: &Value) -> CallRequest {
    read(Api::Gemini, request)
}

fn tools(name: &str) -> Value {
    json!([{"functionDeclarations": [
        {"name": name, "parameters": {"type": "OBJECT", "properties": {"answer": {"type": "STRING"}}}},
    ]}])
}

#[test]
fn the_path_says_model_and_shape() {
    let at = |path: &str| {
        let got = dialect(Api::Gemini).read(path, b"{}").unwrap();
        (got.model, got.is_stream, got.is_list)
    };
    let model = || "gemini-pro".to_owned();
    assert_eq!(at("/v1beta/models/gemini-pro:generateContent?key=x"), (model(), false, false));
    assert_eq!(
        at("/v1/models/gemini-pro:streamGenerateContent?key=x&alt=sse"),
        (model(), true, false)
    );
    assert_eq!(at("/v1/models/gemini-pro:streamGenerateContent"), (model(), false, true));
    assert_eq!(
        at("/v1/p/x/publishers/google/models/gemini-pro:generateContent"),
        (model(), false, false)
    );
}

#[test]
fn keys_may_have_either_case() {
    for config in [
        json!({"generationConfig": {"maxOutputTokens": 9, "candidateCount": 2}}),
        json!({"generation_config": {"max_output_tokens": 9, "candidate_count": 2}}),
    ] {
        let got = parsed(&config);
        assert_eq!((got.output_cap, got.choices), (Some(9), 2));
        let edits = Edits { output_cap: Some(5), ..Edits::default() };
        let got = edited(Api::Gemini, &config, &edits);
        assert_eq!((parsed(&got).output_cap, got.as_object().unwrap().len()), (Some(5), 1));
    }
    assert_eq!(parsed(&json!({"cachedContent": "c/1"})).thread, Thread::Continues);
}

#[test]
fn demands_follow_mode_and_schema() {
    let calling = |mode: &str, names: Value| json!({"functionCallingConfig": {"mode": mode, "allowedFunctionNames": names}});
    let end = OutputContract::FinalAnswer { argument: "answer".to_owned() };
    let none = || json!({});
    for (name, config, generation, want) in [
        ("a", none(), none(), OutputContract::Text),
        ("a", calling("AUTO", Value::Null), none(), OutputContract::Text),
        ("a", calling("ANY", Value::Null), none(), OutputContract::Structure),
        ("a", none(), json!({"responseSchema": {}}), OutputContract::Structure),
        ("a", none(), json!({"responseJsonSchema": {}}), OutputContract::Structure),
        ("a", none(), json!({"responseMimeType": "application/json"}), OutputContract::Structure),
        ("a", none(), json!({"responseMimeType": "text/plain"}), OutputContract::Text),
        ("final_answer", calling("ANY", Value::Null), none(), end.clone()),
        ("final_answer", calling("ANY", json!(["b", "final_answer"])), none(), end),
        ("final_answer", calling("ANY", json!(["b"])), none(), OutputContract::Structure),
        ("final_answer", calling("NONE", Value::Null), none(), OutputContract::Text),
    ] {
        let request =
            json!({"tools": tools(name), "toolConfig": config, "generationConfig": generation});
        assert_eq!(parsed(&request).contract, want, "{request}");
    }
}

#[test]
fn results_are_those_after_the_last_content_of_the_model() {
    let call =
        |id: Value, n: u64| json!({"functionCall": {"id": id, "name": "look", "args": {"n": n}}});
    let answer = |id: Value, response: Value| json!({"functionResponse": {"id": id, "name": "look", "response": response}});
    let request = |ids: [Value; 2]| {
        let [first, second] = ids;
        json!({"contents": [
            {"role": "user", "parts": [{"text": "u"}]},
            {"role": "model", "parts": [call(first.clone(), 1), call(second.clone(), 2)]},
            {"role": "user", "parts": [answer(second, json!({"error": "no"})), answer(first, json!({"result": 1}))]},
        ]})
    };
    let short = |got: CallRequest| -> Vec<(String, String, bool)> {
        got.results.into_iter().map(|it| (it.arguments, it.content, it.failed)).collect()
    };
    let row =
        |arguments: &str, content: &str, failed| (arguments.to_owned(), content.to_owned(), failed);
    let (bad, good) = ("{\"error\":\"no\"}", "{\"result\":1}");
    let named = parsed(&request([json!("1"), json!("2")]));
    assert!(!named.has_user_message);
    assert_eq!(short(named), [row("{\"n\":2}", bad, true), row("{\"n\":1}", good, false)]);
    let unnamed = parsed(&request([Value::Null, Value::Null]));
    assert_eq!(short(unnamed), [row("{\"n\":1}", bad, true), row("{\"n\":2}", good, false)]);
}

#[test]
fn a_wrap_up_forbids_calls_only_where_functions_are_declared() {
    let edits = Edits { finish: Some("Finish."), ..Edits::default() };
    let user = json!({"role": "user", "parts": [{"text": "u"}]});
    let noted = json!([{"role": "user", "parts": [{"text": "u"}, {"text": "Finish."}]}]);
    let request = json!({"contents": [user], "tools": tools("a"),
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}, "retrievalConfig": {}}});
    let got = edited(Api::Gemini, &request, &edits);
    assert_eq!(got["contents"], noted);
    assert_eq!(
        got["toolConfig"],
        json!({"functionCallingConfig": {"mode": "NONE"}, "retrievalConfig": {}})
    );
    let search =
        edited(Api::Gemini, &json!({"contents": [user], "tools": [{"googleSearch": {}}]}), &edits);
    assert_eq!(search.get("toolConfig"), None);
    let response =
        json!({"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {}}}]});
    let got = edited(Api::Gemini, &json!({"contents": [response], "tools": tools("a")}), &edits);
    assert_eq!(
        got["contents"],
        json!([response, {"role": "user", "parts": [{"text": "Finish."}]}])
    );
    assert_eq!(got["toolConfig"]["functionCallingConfig"]["mode"], "NONE");
}

fn chunk(parts: Value, finish: Value, output: u64) -> String {
    let usage =
        json!({"promptTokenCount": 10, "candidatesTokenCount": output, "thoughtsTokenCount": 2});
    let candidate =
        json!({"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": finish});
    format!(
        "data: {}\r\n\r\n",
        json!({
            "candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-pro", "responseId": "r1",
        })
    )
}

fn tool_stream() -> String {
    [
        chunk(json!([{"text": "hmm", "thought": true}]), Value::Null, 1),
        chunk(json!([{"text": "Hé"}]), Value::Null, 2),
        chunk(json!([{"functionCall": {"name": "look", "args": {"a": 1}}}, {"functionCall": {"name": "see"}}]), Value::Null, 3),
        chunk(json!([{"text": ""}]), json!("STOP"), 4),
    ]
    .concat()
    .replace("\r\n", "\n")
}

#[test]
fn a_stream_is_assembled() {
    for stream in [tool_stream(), tool_stream().replace('\n', "\r\n")] {
        let response = streamed(Api::Gemini, stream.as_bytes());
        assert_eq!(
            (response.text.as_str(), response.finish.as_deref(), response.is_whole),
            ("Hé", Some("STOP"), true)
        );
        let calls: Vec<_> = response
            .tool_calls
            .iter()
            .map(|it| (it.tool.as_str(), it.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("look", "{\"a\":1}"), ("see", "{}")]);
        let usage = response.usage.unwrap();
        assert_eq!((usage.tokens.input, usage.tokens.output, usage.reasoning), (10, 6, Some(2)));
        assert_eq!(response.output_bytes, 3 + 3 + 7);
    }
    assert_eq!(check_ends(Api::Gemini, &tool_stream(), 2), 5);
}

#[test]
fn a_call_in_pieces_is_open_until_its_last() {
    let mut reader = dialect(Api::Gemini).stream(&CallRequest::default());
    let states = [
        json!({"functionCall": {"name": "look", "willContinue": true}}),
        json!({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "numberValue": 1}], "willContinue": true}}),
        json!({"functionCall": {}}),
    ]
    .map(|part| {
        let data = json!({"candidates": [{"content": {"parts": [part]}}]}).to_string();
        reader.event(&SseEvent { name: "", data: &data });
        reader.is_between_blocks()
    });
    assert_eq!((states, reader.response().tool_calls.len()), ([false, false, true], 1));
}

#[test]
fn whole_answers_and_lists_are_read() {
    let pieces: Vec<Value> = tool_stream()
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let list = dialect(Api::Gemini).answer(Value::from(pieces).to_string().as_bytes()).unwrap();
    assert_eq!(list, streamed(Api::Gemini, tool_stream().as_bytes()));
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}});
    let response = dialect(Api::Gemini).answer(blocked.to_string().as_bytes()).unwrap();
    assert_eq!(
        (response.finish.as_deref(), response.usage.unwrap().tokens.input),
        (Some("SAFETY"), 3)
    );
    let error = json!([{"error": {"code": 429, "message": "slow down"}}]);
    let response = dialect(Api::Gemini).answer(error.to_string().as_bytes()).unwrap();
    assert_eq!((response.error.as_deref(), response.is_whole), (Some("slow down"), false));
}
