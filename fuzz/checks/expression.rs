//! The expression reader: never panics; what it reads prints and reads back as the same value.

use endstop::core::expr::parse;

/// Panics if the reader breaks its promise.
pub(crate) fn check(text: &str) {
    match parse(text) {
        Ok(condition) => {
            let printed = condition.to_string();
            let again = parse(&printed).expect("a printed condition can be read");
            assert_eq!(again, condition, "{printed}");
            assert_eq!(again.to_string(), printed, "printing is a fixed point");
        }
        Err(error) => assert!(!error.render(text, "fuzz", false).is_empty()),
    }
}
