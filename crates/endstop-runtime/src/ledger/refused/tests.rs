//! The amounts of a refusal as people read them.

use super::*;

fn refused(settled: &str, held: &str, limit: &str, asked: &str) -> Refused {
    let [settled, held, limit, asked] =
        [settled, held, limit, asked].map(|text| text.parse::<Money>().unwrap().picos());
    Refused { budget: 0, dimension: Dimension::Cost, limit, settled, held, asked }
}

#[test]
fn rounding_never_makes_a_refused_call_fit() {
    let cases = [
        (("2.9978", "0", "3", "0.011"), "$2.998 of $3.00, and this call could cost $0.011"),
        (("2.9996", "0", "3", "0.011"), "$2.9996 of $3.00, and this call could cost $0.011"),
        (("2.5001", "0", "3", "0.50"), "$2.5001 of $3.00, and this call could cost $0.50"),
        (
            ("0.30", "0.30", "1", "0.60"),
            "$0.60 of $1.00 ($0.30 of it held), and this call could cost $0.60",
        ),
        (("1234", "0", "1234.5", "7"), "$1,234.00 of $1,234.50, and this call could cost $7.00"),
        (
            ("3", "0", "3", "0.000000000001"),
            "$3.00 of $3.00, and this call could cost $0.000000000001",
        ),
    ];
    for ((settled, held, limit, asked), text) in cases {
        let refused = refused(settled, held, limit, asked);
        assert_eq!(refused.text_of("all runs have"), format!("all runs have used {text}"));
    }
}

#[test]
fn tokens_and_counts_are_exact() {
    let of = |dimension, limit, settled, asked| Refused {
        budget: 0,
        dimension,
        limit,
        settled,
        held: 0,
        asked,
    };
    let tokens = of(Dimension::Tokens, 60_000, 59_990, 500);
    let text = "this budget has used 59,990 of 60k tokens, and this call could use 500";
    assert_eq!(tokens.to_string(), text);
    let steps = of(Dimension::Steps, 3, 3, 1);
    assert_eq!(steps.to_string(), "this budget has used 3 of 3 steps");
}
