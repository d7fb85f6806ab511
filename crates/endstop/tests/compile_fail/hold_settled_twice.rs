//! A hold is consumed by its end.

use endstop::ledger::{Amounts, Budget, Limits};

fn main() {
    let hold = Budget::root(Limits::unlimited()).reserve(Amounts::ZERO).unwrap();
    hold.settle(Amounts::ZERO);
    hold.settle(Amounts::ZERO);
}
