//! A hold cannot be copied, to be ended twice.

use endstop::ledger::{Amounts, Budget, Hold, Limits};

fn copied<T: Clone>(of: &T) -> T {
    of.clone()
}

fn main() {
    let hold: Hold = Budget::root(Limits::unlimited()).reserve(Amounts::ZERO).unwrap();
    let _ = copied(&hold);
}
