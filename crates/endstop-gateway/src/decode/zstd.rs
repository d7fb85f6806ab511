//! zstd, block by block as they are complete.

use bytes::Bytes;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::DecodeError;
use crate::limits::{MAX_ZSTD_BLOCK, MAX_ZSTD_WINDOW};

const MAGIC: u32 = 0xfd2f_b528;
const SKIPPED: std::ops::RangeInclusive<u32> = 0x184d_2a50..=0x184d_2a5f;
const BLOCK_HEAD: usize = 3;

/// Undoes zstd.
#[derive(Default)]
pub(super) struct ZstdDecoder {
    frame: FrameDecoder,
    /// Data that is not decoded yet: less than one block, or less than the head of a frame.
    pending: Vec<u8>,
    within: Within,
    has_begun: bool,
}

#[derive(Clone, Copy, Default)]
enum Within {
    #[default]
    Head,
    Skipped(usize),
    Blocks {
        has_checksum: bool,
    },
}

impl ZstdDecoder {
    pub(super) fn push(&mut self, part: &[u8], max: usize) -> Result<Bytes, DecodeError> {
        self.pending.extend_from_slice(part);
        let mut all = std::mem::take(&mut self.pending);
        let mut rest = all.as_slice();
        let mut out = Vec::new();
        while let Some(taken) = self.step(rest, &mut out)? {
            rest = rest.get(taken..).unwrap_or_default();
            if out.len() > max {
                return Err(DecodeError::TooLarge);
            }
        }
        let consumed = all.len() - rest.len();
        all.drain(..consumed);
        self.pending = all;
        Ok(out.into())
    }

    pub(super) fn finish(&self) -> Result<(), DecodeError> {
        let is_whole = self.pending.is_empty() && matches!(self.within, Within::Head);
        if is_whole { Ok(()) } else { Err(DecodeError::Broken) }
    }

    /// Takes one complete part from the front and returns its length; `None` if it is incomplete.
    fn step(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, DecodeError> {
        match self.within {
            Within::Head => self.head(data),
            Within::Skipped(0) => {
                self.within = Within::Head;
                Ok(Some(0))
            }
            Within::Skipped(left) => {
                let taken = left.min(data.len());
                self.within = Within::Skipped(left - taken);
                Ok((taken > 0).then_some(taken))
            }
            Within::Blocks { has_checksum } => self.block(data, has_checksum, out),
        }
    }

    fn head(&mut self, data: &[u8]) -> Result<Option<usize>, DecodeError> {
        let Some((magic, rest)) = data.split_first_chunk::<4>() else { return Ok(None) };
        let magic = u32::from_le_bytes(*magic);
        if SKIPPED.contains(&magic) {
            let Some(length) = rest.first_chunk::<4>() else { return Ok(None) };
            self.within = Within::Skipped(u32::from_le_bytes(*length) as usize);
            return Ok(Some(8));
        }
        if magic != MAGIC {
            return Err(DecodeError::Broken);
        }
        let Some((&flags, rest)) = rest.split_first() else { return Ok(None) };
        let is_single = flags & 0x20 != 0;
        let dictionary = [0, 1, 2, 4].get(usize::from(flags & 3)).copied().unwrap_or(0);
        let size = match flags >> 6 {
            0 => usize::from(is_single),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        let window = usize::from(!is_single);
        let Some(fields) = rest.get(..window + dictionary + size) else { return Ok(None) };
        let window_size = match fields.first() {
            Some(&byte) if !is_single => {
                let base = 1_u64 << (10 + (byte >> 3));
                base + base / 8 * u64::from(byte & 7)
            }
            _ => {
                let bytes = fields.iter().skip(dictionary).rev();
                let size = bytes.fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
                if flags >> 6 == 1 { size + 256 } else { size }
            }
        };
        if window_size > MAX_ZSTD_WINDOW {
            return Err(DecodeError::TooLarge);
        }
        let taken = 5 + fields.len();
        let head = data.get(..taken).unwrap_or_default();
        let began = if self.has_begun { self.frame.reset(head) } else { self.frame.init(head) };
        began.map_err(|_| DecodeError::Broken)?;
        self.has_begun = true;
        self.within = Within::Blocks { has_checksum: flags & 4 != 0 };
        Ok(Some(taken))
    }

    fn block(
        &mut self,
        data: &[u8],
        has_checksum: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, DecodeError> {
        let Some(&[low, middle, high]) = data.first_chunk::<BLOCK_HEAD>() else { return Ok(None) };
        let head = u32::from_le_bytes([low, middle, high, 0]);
        let (is_last, is_repeated) = (head & 1 != 0, head >> 1 & 3 == 1);
        let size = (head >> 3) as usize;
        if size > MAX_ZSTD_BLOCK {
            return Err(DecodeError::Broken);
        }
        let checksum = if is_last && has_checksum { 4 } else { 0 };
        let taken = BLOCK_HEAD + if is_repeated { 1 } else { size } + checksum;
        let Some(block) = data.get(..taken) else { return Ok(None) };
        self.frame
            .decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|_| DecodeError::Broken)?;
        self.frame.collect_to_writer(out).map_err(|_| DecodeError::Broken)?;
        if is_last {
            self.within = Within::Head;
        }
        Ok(Some(taken))
    }
}
