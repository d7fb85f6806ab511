//! An amount is never a float, so it is never NaN, infinite or negative.

use endstop::ledger::Amounts;

fn main() {
    let _ = Amounts { tokens: 0.5, ..Amounts::ZERO };
}
