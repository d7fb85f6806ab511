//! Which models are counted, hostile text, and the margin on recorded requests.

use super::*;

#[test]
fn each_family_of_models_has_its_tokenizer() {
    for model in
        ["gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1-nano", "gpt-5", "gpt-5-mini", "o3", "o4-mini"]
    {
        assert_eq!(tokenizer(model), Some(O200K), "{model}");
    }
    for model in ["gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-3.5-turbo", "ft:gpt-3.5-turbo:org::id"]
    {
        assert_eq!(tokenizer(model), Some(CL100K), "{model}");
    }
    for model in ["", "claude-opus-4-5", "gpt-4.7", "gpt-6", "o10", "davinci-002", "llama-3"] {
        assert_eq!(tokenizer(model), None, "{model}");
    }
}

/// Text that is slow for tokenizers ends, and more than the limit is not counted.
#[tokio::test]
async fn hostile_text_is_counted_up_to_the_limit() {
    for letters in ["a", " ", "\\n", "1", "\u{1f600}", "ab"] {
        let text = letters.repeat(MAX_LOCAL_COUNT / letters.len());
        let counted = count("gpt-4o", &text).await;
        assert!(counted >= Some(text.len() as u64 / 4), "{counted:?}");
    }
    assert_eq!(count("gpt-4o", &"a".repeat(MAX_LOCAL_COUNT + 1)).await, None);
}

/// A request for chat completions of a recorded run, and the input that OpenAI reported for it.
struct Recorded {
    messages: String,
    tools_bytes: u64,
    reported: u64,
    model: String,
}

/// Adds the requests of one log of Inspect, which keeps them as they were sent, long texts apart.
fn recorded_in(sample: &serde_json::Value, all: &mut Vec<Recorded>) {
    let attachments = sample["attachments"].as_object();
    for event in sample["events"].as_array().into_iter().flatten() {
        let (request, response) = (&event["call"]["request"], &event["call"]["response"]);
        let Some(reported) = response["usage"]["prompt_tokens"].as_u64() else { continue };
        let model = request["model"].as_str().unwrap_or_default().to_owned();
        let mut messages = request["messages"].to_string();
        for (name, content) in attachments.into_iter().flatten() {
            let content = content.to_string();
            messages = messages.replace(&format!("attachment://{name}"), content.trim_matches('"'));
        }
        if tokenizer(&model).is_none() || messages.contains("image_url") {
            continue;
        }
        let tools = request.get("tools").map_or(0, |tools| tools.to_string().len());
        all.push(Recorded { messages, tools_bytes: tools as u64, reported, model });
    }
}

/// Measures the margin (`docs/reservations.md`): the most that was reported for a counted token, in each half of the
/// recorded requests.
#[test]
fn reported_input_is_below_the_count_with_its_margin() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces/inspect_ai");
    let Ok(files) = std::fs::read_dir(directory) else {
        return println!("skipped: no recorded runs in ../shared/traces/inspect_ai");
    };
    let mut all = Vec::new();
    for file in files.flatten() {
        let Ok(text) = std::fs::read_to_string(file.path()) else { continue };
        let log: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        for sample in log["samples"].as_array().into_iter().flatten() {
            recorded_in(sample, &mut all);
        }
    }
    all.sort_by(|one, other| one.messages.cmp(&other.messages));
    all.dedup_by(|one, other| one.messages == other.messages && one.reported == other.reported);
    let mut most = [0u64; 2];
    for (at, one) in all.iter().enumerate() {
        let counted = tokens(tokenizer(&one.model).unwrap(), &one.messages).unwrap();
        let bound = counted + one.tools_bytes;
        let permille = one.reported * 1_000 / bound;
        println!(
            "{}: {} counted, {} tools, {} reported",
            one.model, counted, one.tools_bytes, one.reported
        );
        most[at % 2] = most[at % 2].max(permille);
        let with_margin = super::super::with_margin(counted, crate::limits::LOCAL_COUNT_MARGIN);
        assert!(one.reported <= with_margin + one.tools_bytes, "{}", one.messages);
    }
    println!("{} requests; most reported for 1,000 counted, by halves: {most:?}", all.len());
}
