//! Tests of `units`.

use alloc::string::ToString;

use super::*;
use crate::condition::named::timeout;

#[test]
fn a_duration_is_rounded_up_to_milliseconds() {
    use core::time::Duration;
    for (duration, millis) in [
        (Duration::ZERO, 0),
        (Duration::from_nanos(1), 1),
        (Duration::from_secs(60), 60_000),
        (Duration::MAX, u64::MAX),
    ] {
        assert_eq!(Millis::from(duration), Millis(millis));
        assert_eq!(timeout(duration), timeout(Millis(millis)));
    }
}

#[test]
fn money_reads_and_prints_exactly() {
    for (text, picos, shown) in [
        ("2", 2_000_000_000_000, "$2.00"),
        ("$0.5", 500_000_000_000, "$0.50"),
        ("0.000000000001", 1, "$0.000000000001"),
        ("1_000.25", 1_000_250_000_000_000, "$1000.25"),
        ("9000000", 9_000_000_000_000_000_000, "$9000000.00"),
    ] {
        let money: Money = text.parse().unwrap();
        assert_eq!((money.picos(), money.to_string().as_str()), (picos, shown));
        assert_eq!(money.to_decimal().parse(), Ok(money));
    }
}

#[test]
fn money_refuses_what_is_not_an_exact_amount() {
    for (text, error) in [
        ("", MoneyError::NotANumber),
        (".00", MoneyError::NotANumber),
        ("1.", MoneyError::NotANumber),
        ("-1", MoneyError::NotANumber),
        ("NaN", MoneyError::NotANumber),
        ("inf", MoneyError::NotANumber),
        ("1e9", MoneyError::NotANumber),
        ("0.0000000000001", MoneyError::TooFine),
        ("9000000.01", MoneyError::TooLarge),
        ("99999999999999999999999", MoneyError::TooLarge),
    ] {
        assert_eq!(text.parse::<Money>(), Err(error), "{text}");
    }
}

#[test]
fn durations_print_in_units() {
    for (ms, shown) in
        [(0, "0s"), (250, "250ms"), (90_000, "1m30s"), (5_400_000, "1h30m"), (86_400_000, "1d")]
    {
        assert_eq!(Millis(ms).to_string(), shown);
    }
}
