//! The bound of a call's input. Every driver computes it here, from the bytes of the request and from the provider's counts
//! of earlier ones.

/// The most input tokens that a call can have.
///
/// No tokenizer makes more tokens than there are bytes. So the bytes of a request bound it, together with the part that a
/// provider adds unseen, such as a template for tools. That part is known once the provider has counted a request. The count
/// of a request's beginning is a bound too, together with the bytes after it.
///
/// ```
/// use endstop_runtime::{CountedInput, InputBound};
///
/// // Nothing was counted yet.
/// assert_eq!(InputBound::of_bytes(900).tokens, 900);
/// // The provider counted 300 tokens of these 900 bytes, and 200 bytes are new.
/// assert_eq!(InputBound::continued(300, 200).tokens, 500);
/// // It counted more than there are bytes: what it added comes again, in another conversation too.
/// let counted = CountedInput { tokens: 4_000, bytes: 900 };
/// assert_eq!(InputBound::continued(counted.tokens, 200).tokens, 4_200);
/// assert_eq!(InputBound::of_another(Some(counted), 50).tokens, 3_150);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputBound {
    /// The most tokens that it can be.
    pub tokens: u64,
    /// The part of them that the provider counted earlier.
    pub counted: u64,
}

/// A request as its provider counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedInput {
    /// The count.
    pub tokens: u64,
    /// The bound of the same request by its bytes.
    pub bytes: u64,
}

impl CountedInput {
    /// The tokens that the request did not show.
    const fn unseen(self) -> u64 {
        self.tokens.saturating_sub(self.bytes)
    }
}

impl InputBound {
    /// Creates the bound of a request by its bytes alone.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { tokens: bytes, counted: 0 }
    }

    /// Creates the bound of a request whose beginning has `counted` tokens by the provider's count, and whose rest has
    /// `more` bytes. The count stays, also if it is above the bytes of the beginning.
    #[must_use]
    pub const fn continued(counted: u64, more: u64) -> Self {
        Self { tokens: counted.saturating_add(more), counted }
    }

    /// Creates the bound of a request with other messages, or to another model, than the one that was counted. Only
    /// what the provider added unseen is used of that count, as another tokenizer makes other tokens of the same bytes.
    #[must_use]
    pub const fn of_another(counted: Option<CountedInput>, bytes: u64) -> Self {
        let unseen = match counted {
            Some(counted) => counted.unseen(),
            None => 0,
        };
        Self { tokens: bytes.saturating_add(unseen), counted: unseen }
    }

    /// Returns the lower of two bounds of one request.
    #[must_use]
    pub const fn or_lower(self, other: Self) -> Self {
        if other.tokens < self.tokens { other } else { self }
    }

    /// Returns the bound once this very request was counted, with the margin of that count. A count below the part that was counted
    /// before is not of this request, and one above the bound lowers nothing.
    #[must_use]
    pub const fn with_count(self, count: u64) -> Self {
        if self.counted <= count && count < self.tokens {
            Self { tokens: count, counted: count }
        } else {
            self
        }
    }
}
