//! What was settled cannot be given back.

use endstop::ledger::{Amounts, Budget, Limits};

fn main() {
    let hold = Budget::root(Limits::unlimited()).reserve(Amounts::ZERO).unwrap();
    hold.settle(Amounts::ZERO);
    hold.release();
}
