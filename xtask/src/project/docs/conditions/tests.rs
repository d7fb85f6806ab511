//! Tests of the reference of conditions.

use endstop_core::expr::parse;

use super::*;

#[test]
fn every_example_is_a_condition() {
    let facts = FACTS.iter().map(|row| match row.arguments {
        "" => row.name.to_owned(),
        arguments => format!("{}({arguments})", row.name),
    });
    let operators = OPERATORS.iter().map(|(_, _, example)| (*example).to_owned());
    for text in GAUGES.iter().map(example).chain(facts).chain(operators) {
        assert!(parse(&text).is_ok(), "{text}");
    }
}
