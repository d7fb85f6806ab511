//! Tests of `parts`.

use crate::Dialect as _;
use crate::messages::Messages;

#[test]
fn more_messages_do_not_change_what_stands_beside_them() {
    let fixed = |messages: &str| {
        let body =
            format!(r#"{{"model":"m","max_tokens":9,"system":"s","messages":[{messages}]}}"#);
        Messages.read("/v1/messages", body.as_bytes()).unwrap().fixed
    };
    let (user, model) =
        (r#"{"role":"user","content":"a"}"#, r#"{"role":"assistant","content":"b"}"#);
    assert_eq!(fixed(user), fixed(&format!("{user} ,\n {model}, {user}")));
}
