//! Errors of a desk, as the command shows them.

use endstop_gateway::control_source::SourceErrorKind;

use super::*;

#[test]
fn an_error_about_a_field_names_the_option_of_the_command_line() {
    for (error, said) in [
        ("`usd`: that is too large", "--usd: that is too large"),
        ("`budgets`: `none` stands alone", "--budget: `none` stands alone"),
        ("`expires`: that is too long", "--expires: that is too long"),
        // A key with the name of a field.
        ("`usd` cannot name a key", "`usd` cannot name a key"),
        ("the key `usd` exists", "the key `usd` exists"),
    ] {
        let error = SourceError::new(SourceErrorKind::Unusable, error).with_hint("a hint");
        let shown = shown(error);
        assert_eq!((shown.message.as_str(), shown.hint.as_deref()), (said, Some("a hint")));
    }
}
