//! Tests of `script`.

use super::*;

#[test]
fn a_script_is_read_as_it_is_written() {
    for text in ["loop", "loop:3", "answer", "delegate", "slow", "fail", "cut", "repeat", "long"] {
        assert_eq!(text.parse::<Script>().unwrap().to_string(), text);
    }
    for text in ["", "Loop", "loop:", "loop:-1", "loop:99999999999999999999", "sim"] {
        assert!(text.parse::<Script>().is_err(), "{text}");
    }
}

#[test]
fn a_model_may_name_a_script() {
    assert_eq!(Script::of_model("sim/loop:2"), Some(Script::LoopFor(2)));
    assert_eq!(Script::of_model("sim/none"), None);
    assert_eq!(Script::of_model("gpt-4o"), None);
}
