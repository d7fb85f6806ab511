//! Model calls: planned before they begin, reserved, and settled exactly once.

mod accounts;
mod admission;
mod fit;
mod input;
mod open;
mod plan;
mod pricing;
mod refusal;
mod refused;
mod step;
mod tool;

pub use fit::CallRoom;
pub use input::{CountedInput, InputBound};
pub use open::{CallCounts, Charge, NotBegun, OpenCall, Outcome, Received, ResponseReport};
pub(crate) use plan::settled;
pub use plan::{CallPlan, WRAP_UP_NOTE, estimate_tokens};
pub use pricing::{Modalities, Pricing};
pub use tool::{CostReport, OpenToolCall, ToolNotBegun};

pub use crate::limits::{
    BYTES_PER_TOKEN, DEFAULT_MAX_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS, WRAP_UP_OUTPUT_TOKENS,
};
