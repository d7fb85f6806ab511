//! The usage of one response, as its provider reported it.
//!
//! A separate file because every driver settles by it.

use endstop_core::units::{Money, TokenUsage};

use crate::limits::MAX_COUNT;
use crate::{CallContext, Unit, UsageCounts};

/// Usage as a provider counted it.
///
/// ```
/// use endstop_core::units::TokenUsage;
/// use endstop_price::ReportedUsage;
///
/// let reported = ReportedUsage::from(TokenUsage { input: 30, ..TokenUsage::default() });
/// assert!(reported.is_whole(0));
/// assert!(!reported.is_whole(400), "400 bytes arrived, and no output is counted");
/// assert!(!ReportedUsage::default().is_whole(0), "it reports nothing");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedUsage {
    /// All that was counted, for exact prices.
    pub counts: UsageCounts,
    /// The counts in the core's classes.
    pub tokens: TokenUsage,
    /// Service tier, speed and batch, as the response names them.
    pub context: CallContext,
    /// Output tokens that were reasoning.
    pub reasoning: Option<u64>,
    /// The cost that the provider reports.
    pub billed: Option<Money>,
    /// Whether it was reported before the output was made.
    pub is_preliminary: bool,
}

impl ReportedUsage {
    /// Returns whether it covers all of a response with this many bytes of output: neither input nor output is left
    /// out.
    #[must_use]
    pub fn is_whole(&self, output_bytes: u64) -> bool {
        let (input, output) = (self.tokens.total_input(), self.tokens.output);
        let has_output = self.is_output_final() || output_bytes == 0;
        self.counts.iter().next().is_some() && has_output && (input > 0 || output == 0)
    }

    /// Returns whether the output that is reported is all of it, once the response is complete.
    #[must_use]
    pub const fn is_output_final(&self) -> bool {
        self.tokens.output > 0 && !self.is_preliminary
    }

    /// Returns the report with these tokens, for one that leaves some out. Its other counts stay.
    #[must_use]
    pub fn with_tokens(&self, tokens: &TokenUsage) -> Self {
        let mut told = self.clone();
        let all = [("input_tokens", tokens.total_input()), ("output_tokens", tokens.output)];
        for (unit, count) in all {
            // Beyond what can be counted it stays as it was reported.
            let _ = Unit::named(unit).map(|unit| told.counts.set(unit, count));
        }
        told.tokens = *tokens;
        told
    }
}

/// A report of these tokens alone. Counts that are too large for a price are lowered to the largest.
impl From<TokenUsage> for ReportedUsage {
    fn from(tokens: TokenUsage) -> Self {
        let most = |count: u64| count.min(MAX_COUNT / 8);
        let counted = TokenUsage {
            input: most(tokens.input),
            cache_read: most(tokens.cache_read),
            cache_write: most(tokens.cache_write),
            cache_write_1h: most(tokens.cache_write_1h),
            output: most(tokens.output),
        };
        let counts = match UsageCounts::from_token_usage(&counted) {
            Ok(counts) => counts,
            Err(error) => unreachable!("five counts of an eighth are below the largest: {error}"),
        };
        Self { counts, tokens, ..Self::default() }
    }
}
