//! Assumptions that a bound rests on where a provider could break it: each is named in `docs/semantics.md`, section 2.

/// An assumption about providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assumption {
    ClosedStreamsEnd,
    ErrorsAreFree,
    CountsAreTrue,
    ReportsAreTrue,
    CapsAreKept,
}

impl Assumption {
    /// Its name in `docs/semantics.md`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClosedStreamsEnd => "closed streams end",
            Self::ErrorsAreFree => "errors are free",
            Self::CountsAreTrue => "counts are true",
            Self::ReportsAreTrue => "reports are true",
            Self::CapsAreKept => "output caps are kept",
        }
    }
}
