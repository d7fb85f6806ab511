//! Tests of `webhook`.

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn hmac_is_that_of_the_standard() {
    // RFC 4231, test cases 1, 2 and 6.
    let cases: [(&[u8], &[u8], &str); 3] = [
        (
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ];
    for (key, message, expected) in cases {
        assert_eq!(hex(&hmac(key, message)), expected);
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    for url in ["", "example.com/hook", "ftp://example.com", "http://"] {
        let started = Webhook::start(url, Key::new("s"), |_| {});
        assert!(matches!(started, Err(WebhookError::Address(_))), "{url}");
    }
}

#[tokio::test]
async fn a_lost_message_says_whether_too_many_wait_or_nothing_is_sent_any_longer() {
    // The task does not run while this does not wait.
    let (webhook, sending) = Webhook::start("http://127.0.0.1:9/", Key::new("s"), |_| {}).unwrap();
    let message = serde_json::json!({ "event": "run_paused" });
    for _ in 0..MAX_WEBHOOK_QUEUE {
        assert_eq!(webhook.send(&message), Ok(()));
    }
    assert_eq!(webhook.send(&message), Err(NotQueued::Full));
    drop(sending);
    while webhook.send(&message) != Err(NotQueued::Closed) {
        tokio::task::yield_now().await;
    }
}
