//! Tests of `redact`.

use super::*;

fn shown(words: &[&str]) -> Vec<String> {
    command(&words.iter().map(OsString::from).collect::<Vec<_>>())
}

#[test]
fn nothing_that_looks_like_a_key_is_left() {
    for (words, wanted) in [
        (&["agent", "sk-proj-abc123DEF"][..], &["agent", "[redacted]"][..]),
        (&["sk-ant-api03-x_y-z"], &["[redacted]"]),
        (&["--use=AIzaSyD-123456"], &["--use=[redacted]"]),
        (&["ghp_0123456789"], &["[redacted]"]),
        (&["github_pat_11AAAA_bbbb"], &["[redacted]"]),
        (&["xai-0123456789"], &["[redacted]"]),
        (&["gsk_0123456789"], &["[redacted]"]),
        (&["env", "OPENAI_API_KEY=abc", "agent"], &["env", "OPENAI_API_KEY=[redacted]", "agent"]),
        (&["--api-key", "abc", "x"], &["--api-key", "[redacted]", "x"]),
        (&["--api-key", "two words", "x"], &["--api-key", "[redacted]", "x"]),
        (&["--api-key=abc"], &["--api-key=[redacted]"]),
        (&["--auth-token", "abc"], &["--auth-token", "[redacted]"]),
        (&["-H", "Authorization: Bearer abc"], &["-H", "Authorization: Bearer [redacted]"]),
        (&["-H", "x-api-key: abc"], &["-H", "x-api-key: [redacted]"]),
        (
            &["sh", "-c", "API_KEY='abc' agent --token abc; echo done"],
            &["sh", "-c", "API_KEY='[redacted]' agent --token [redacted] echo done"],
        ),
        (&["{\"apiKey\":\"abc\",\"n\":1}"], &["{\"apiKey\":\"[redacted]\",\"n\":1}"]),
        (&["{\"apiKey\": \"abc\"}"], &["{\"apiKey\": [redacted]"]),
        (
            &["https://u:pw@host/x?api_key=abc&n=1"],
            &["https://[redacted]@host/x?api_key=[redacted]&n=1"],
        ),
    ] {
        assert_eq!(shown(words), wanted);
    }
}

#[test]
fn other_words_stay_as_they_are() {
    for words in [
        &["agent", "fix the bug in key.rs", "--max-tokens", "5"][..],
        &["--stop", "tokens >= 5 or cost >= $1"],
        &["pip", "install", "sk-1", "ask-for-directions"],
        &["sh", "-c", "agent --api-key $KEY \"$OPENAI_API_KEY\""],
        &["--api-key", "--verbose"],
        &["https://host/a:b@c", "user@host", "a=b", "größe=ä"],
        &["", " ", "-", "--", "=", ":", "://"],
    ] {
        assert_eq!(shown(words), words);
    }
}
