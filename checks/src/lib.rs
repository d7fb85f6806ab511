//! The ledger and the token tree alone, on the synchronization types of a model checker: `cargo xtask test`
//! runs the models in `tests/` under its features `loom` and `shuttle`.

#[path = "../../crates/endstop-runtime/src"]
#[expect(dead_code, reason = "the runtime uses more of them than the models do")]
mod parts {
    pub mod cancel;
    pub mod ledger;
    pub mod limits;
    pub mod sync;
}

pub use endstop_core as core;
pub use parts::{cancel, ledger};

use parts::{limits, sync};
