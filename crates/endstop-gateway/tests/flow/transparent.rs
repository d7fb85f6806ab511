//! Answers pass byte for byte, however they are cut on their way.

use std::io::Write as _;
use std::sync::Arc;

use endstop_gateway::Gateway;
use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::fake::{Act, Fake, chunk, json_with, sse_end, sse_head};
use crate::kit::*;
use crate::streams::{agent, delta, event};

/// Cuts bytes at these places, which are taken modulo the length.
fn cut(bytes: &[u8], places: &[usize]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = places.iter().map(|at| at % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .filter(|pair| pair[0] < pair[1])
        .map(|pair| bytes[pair[0]..pair[1]].to_vec())
        .collect()
}

fn through(acts: Vec<Act>, request: &serde_json::Value) -> (Got, u64) {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let acts = Arc::new(acts);
        let upstream = Fake::start(move |_, _| acts.to_vec()).await;
        let gateway = Gateway::start(config("[stop]\nlimit = \"steps >= 3\"\n", upstream.addr))
            .await
            .unwrap();
        let got = chat(&gateway, request).await;
        let run = gateway.run(&id()).unwrap();
        assert!(run.budget().held().is_zero());
        (got, run.usage().0.total())
    })
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ -~\u{e9}\u{1F600}]{0,40}"
            .prop_map(|text| delta(&json!({ "content": text }), &json!(null))),
        "[a-z ]{0,20}".prop_map(|text| format!(": {text}\n\n").into_bytes()),
        "[a-z ]{0,20}"
            .prop_map(|text| format!("event: x\r\ndata: {text}\r\ndata:\r\n\r\n").into_bytes()),
        "[a-z]{0,9}".prop_map(|text| format!("data: {text}\r\r").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..30),
        Just(b"\n\n".to_vec()),
    ]
}

fn stream() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(piece(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_passes_under_any_cut(pieces in stream(), places in prop::collection::vec(any::<usize>(), 0..20)) {
        let mut bytes = pieces.concat();
        bytes.extend(delta(&json!({}), &json!("stop")));
        bytes.extend(event(&json!({ "choices": [], "usage": usage() })));
        bytes.extend(b"data: [DONE]\n\n");
        let mut acts = vec![sse_head()];
        acts.extend(cut(&bytes, &places).iter().map(|part| chunk(part)));
        acts.push(sse_end());
        let mut agent = agent();
        agent.extra = json!({ "stream_options": { "include_usage": true } });
        let (got, _) = through(acts, &agent.request());
        prop_assert!(got.is_whole);
        prop_assert_eq!(got.body, bytes);
    }

    #[test]
    fn usage_alone_is_taken_out_under_any_cut(
        words in prop::collection::vec("[a-z ]{0,30}", 1..8),
        places in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let mut expected: Vec<u8> =
            words.iter().flat_map(|word| delta(&json!({ "content": word }), &json!(null))).collect();
        expected.extend(delta(&json!({}), &json!("stop")));
        let mut bytes = expected.clone();
        bytes.extend(event(&json!({ "choices": [], "usage": usage() })));
        for all in [&mut bytes, &mut expected] {
            all.extend(b"data: [DONE]\n\n");
        }
        let mut acts = vec![sse_head()];
        acts.extend(cut(&bytes, &places).iter().map(|part| chunk(part)));
        acts.push(sse_end());
        let (got, tokens) = through(acts, &agent().request());
        prop_assert_eq!(got.body, expected);
        prop_assert_eq!(tokens, 110);
    }

    #[test]
    fn a_json_answer_passes_under_any_cut_and_encoding(
        text in "[ -~\u{e9}]{0,300}",
        places in prop::collection::vec(any::<usize>(), 0..9),
        is_encoded in any::<bool>(),
    ) {
        let mut body = reply_text(&text).into_bytes();
        let mut header = String::new();
        if is_encoded {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&body).unwrap();
            body = encoder.finish().unwrap();
            header = "content-encoding: gzip\r\n".to_owned();
        }
        let mut acts = vec![json_with(&header, body.len())];
        acts.extend(cut(&body, &places).into_iter().map(Act::Send));
        let (got, tokens) = through(acts, &Agent::new("Answer.").request());
        prop_assert_eq!(got.header("content-encoding").is_some(), is_encoded);
        prop_assert_eq!(got.body, body);
        prop_assert_eq!(tokens, 110);
    }
}
