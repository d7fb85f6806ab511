//! Why a call was not sent, by its parts: for people who wonder how so small a request can be too dear.

use std::fmt;

use endstop_core::units::Money;

/// A call that was not sent because it could have passed a cost or token limit.
///
/// As text: `a call that could cost up to $0.54 (input of up to 53200 tokens $0.532, output of 16 tokens $0.008); $0.5
/// was left, and it needs a limit that is at least $0.04 higher`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// The most input tokens.
    pub input_tokens: u64,
    /// The least output that the call is worth making for, in tokens.
    pub output_tokens: u64,
    /// The most that the input costs; zero where money is not what lacks.
    pub input_cost: Money,
    /// The most that both cost; zero where money is not what lacks.
    pub cost: Money,
    /// The remaining amount.
    pub left: Left,
}

/// The remaining amount of the unit that did not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Money.
    Money(Money),
    /// Tokens.
    Tokens(u64),
}

/// A hundredth of a cent in pico-dollars: what is shown of amounts.
const SHOWN: u64 = 100_000_000;
/// A cent in pico-dollars.
const CENT: u64 = 10_000_000_000;

fn up(money: Money, unit: u64) -> Money {
    Money::from_picos(money.picos().div_ceil(unit).saturating_mul(unit))
}

fn down(money: Money) -> Money {
    Money::from_picos(money.picos() / SHOWN * SHOWN)
}

impl fmt::Display for RefusedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input_tokens, output_tokens, input_cost, cost, left } = self;
        match left {
            Left::Money(left) => {
                let (whole, input) = (up(*cost, SHOWN), up(*input_cost, SHOWN));
                let output = up(cost.saturating_sub(*input_cost), SHOWN);
                let more = up(cost.saturating_sub(*left), CENT);
                write!(
                    f,
                    "a call that could cost up to {whole} (input of up to {input_tokens} tokens {input}, output \
                     of {output_tokens} tokens {output}); {} was left, and it needs a limit that is at least {more} higher",
                    down(*left)
                )
            }
            Left::Tokens(left) => {
                let whole = input_tokens.saturating_add(*output_tokens);
                let more = whole.saturating_sub(*left);
                write!(
                    f,
                    "a call that could use up to {whole} tokens (input {input_tokens}, output {output_tokens}); \
                     {left} were left, and it needs a limit that is at least {more} higher"
                )
            }
        }
    }
}
