//! A hold is consumed by its end.

use endstop::ledger::{Amounts, Budget, Hold, Limits};

fn main() {
    let hold = Budget::root(Limits::unlimited()).reserve(Amounts::ZERO).unwrap();
    let settle: fn(Hold, Amounts) = Hold::settle;
    settle(hold, Amounts::ZERO);
    settle(hold, Amounts::ZERO);
}
