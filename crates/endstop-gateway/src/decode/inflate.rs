//! `deflate`, with the header of zlib or without.

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

use super::error::DecodeError;

/// Bytes that are unpacked at a time.
const STEP: usize = 16 << 10;

/// Undoes deflate. (The writer of the library does not distinguish truncated data from complete data.)
pub(super) struct Inflate {
    state: Decompress,
    has_ended: bool,
}

impl Inflate {
    pub(super) fn new(is_zlib: bool) -> Self {
        Self { state: Decompress::new(is_zlib), has_ended: false }
    }

    /// Data after the end is ignored.
    pub(super) fn push(&mut self, part: &[u8], max: usize) -> Result<Bytes, DecodeError> {
        let mut rest = part;
        let mut out = Vec::new();
        while !self.has_ended {
            out.reserve(STEP);
            let (before_in, before_out) = (self.state.total_in(), out.len());
            let status = self.state.decompress_vec(rest, &mut out, FlushDecompress::None);
            if out.len() > max {
                return Err(DecodeError::TooLarge);
            }
            let taken = usize::try_from(self.state.total_in() - before_in).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            match status.map_err(|_| DecodeError::Broken)? {
                Status::StreamEnd => self.has_ended = true,
                _ if taken == 0 && out.len() == before_out => break,
                _ => {}
            }
        }
        Ok(out.into())
    }

    pub(super) const fn finish(&self) -> Result<(), DecodeError> {
        if self.has_ended { Ok(()) } else { Err(DecodeError::Broken) }
    }
}
