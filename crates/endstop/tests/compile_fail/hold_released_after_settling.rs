//! What was settled cannot be given back.

use endstop::ledger::{Amounts, Budget, Hold, Limits};

fn main() {
    let hold = Budget::root(Limits::unlimited()).reserve(Amounts::ZERO).unwrap();
    let settle: fn(Hold, Amounts) = Hold::settle;
    let release: fn(Hold) = Hold::release;
    settle(hold, Amounts::ZERO);
    release(hold);
}
