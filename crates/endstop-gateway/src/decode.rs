//! Compressed responses, decoded as they arrive.

use std::io::Write;

use brotli_decompressor::DecompressorWriter;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;

mod error;
mod inflate;
mod zstd;

pub(crate) use error::DecodeError;
use inflate::Inflate;
use zstd::ZstdDecoder;

use crate::limits::BROTLI_BUFFER;

/// Undoes a `Content-Encoding`, part by part.
///
/// Each part returns everything that can be decoded so far, except that zstd holds back up to its window (8 MiB at most)
/// until the end, so a stream of events in it comes late. The gateway asks upstreams for no compression of model calls.
pub(crate) struct Decoder {
    kind: Decoding,
    max: usize,
    has_begun: bool,
}

enum Decoding {
    Identity,
    Gzip(Box<MultiGzDecoder<Sink>>),
    /// `deflate` means zlib, but some send it without its header: the first byte decides.
    DeflateOrZlib,
    Deflate(Inflate),
    Brotli(Box<DecompressorWriter<Sink>>),
    Zstd(Box<ZstdDecoder>),
    /// It has ended or failed; a failure is returned again.
    Over(Result<(), DecodeError>),
}

impl Decoder {
    /// A decoder for the value of a `Content-Encoding`. One part never expands to more than `max` bytes.
    ///
    /// # Errors
    /// Returns an error if the encoding is not known.
    pub(crate) fn new(encoding: &str, max: usize) -> Result<Self, DecodeError> {
        let encoding = encoding.trim();
        let is = |names: &[&str]| names.iter().any(|name| encoding.eq_ignore_ascii_case(name));
        let kind = if is(&["", "identity"]) {
            Decoding::Identity
        } else if is(&["gzip", "x-gzip"]) {
            Decoding::Gzip(Box::new(MultiGzDecoder::new(Sink::new(max))))
        } else if is(&["deflate"]) {
            Decoding::DeflateOrZlib
        } else if is(&["br"]) {
            Decoding::Brotli(Box::new(DecompressorWriter::new(Sink::new(max), BROTLI_BUFFER)))
        } else if is(&["zstd"]) {
            Decoding::Zstd(Box::default())
        } else {
            return Err(DecodeError::Unknown);
        };
        Ok(Self { kind, max, has_begun: false })
    }

    /// Whether the data is not encoded, so that it need not be pushed at all.
    pub(crate) const fn is_identity(&self) -> bool {
        matches!(self.kind, Decoding::Identity)
    }

    /// Decodes a part. Returns nothing if more is needed.
    ///
    /// # Errors
    /// Returns an error if the data is broken or expands to too much. Later calls return the same error.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<Bytes, DecodeError> {
        if part.is_empty() {
            return Ok(Bytes::new());
        }
        self.has_begun = true;
        if matches!(self.kind, Decoding::DeflateOrZlib) {
            let is_zlib = part.first().is_some_and(|byte| byte & 0x0f == 8);
            self.kind = Decoding::Deflate(Inflate::new(is_zlib));
        }
        let yielded = match &mut self.kind {
            Decoding::Identity if part.len() > self.max => Err(DecodeError::TooLarge),
            Decoding::Identity => Ok(Bytes::copy_from_slice(part)),
            Decoding::Gzip(decoder) => written(&mut **decoder, part, MultiGzDecoder::get_mut),
            Decoding::Deflate(decoder) => decoder.push(part, self.max),
            Decoding::Brotli(decoder) => written(&mut **decoder, part, DecompressorWriter::get_mut),
            Decoding::Zstd(decoder) => decoder.push(part, self.max),
            Decoding::DeflateOrZlib => Ok(Bytes::new()),
            Decoding::Over(how) => how.and(Err(DecodeError::Broken)),
        };
        if let Err(error) = yielded {
            self.kind = Decoding::Over(Err(error));
        }
        yielded
    }

    /// Returns the rest at the end of the data.
    ///
    /// # Errors
    /// Returns an error if the data ended early.
    pub(crate) fn finish(&mut self) -> Result<Bytes, DecodeError> {
        // A response without a body may still name an encoding.
        if !self.has_begun {
            return Ok(Bytes::new());
        }
        match std::mem::replace(&mut self.kind, Decoding::Over(Ok(()))) {
            Decoding::Identity | Decoding::DeflateOrZlib => Ok(Bytes::new()),
            Decoding::Gzip(mut decoder) => ended(decoder.try_finish(), decoder.get_mut()),
            Decoding::Deflate(decoder) => decoder.finish().map(|()| Bytes::new()),
            Decoding::Brotli(mut decoder) => ended(decoder.close(), decoder.get_mut()),
            Decoding::Zstd(decoder) => decoder.finish().map(|()| Bytes::new()),
            Decoding::Over(how) => how.map(|()| Bytes::new()),
        }
    }
}

/// Writes a part, flushes it through, and takes what came out.
fn written<W: Write>(
    decoder: &mut W,
    part: &[u8],
    sink: impl Fn(&mut W) -> &mut Sink,
) -> Result<Bytes, DecodeError> {
    let ended = decoder.write_all(part).and_then(|()| decoder.flush());
    self::ended(ended, sink(decoder))
}

fn ended(ended: std::io::Result<()>, sink: &mut Sink) -> Result<Bytes, DecodeError> {
    match ended {
        _ if sink.is_over => Err(DecodeError::TooLarge),
        Ok(()) => Ok(std::mem::take(&mut sink.data).into()),
        Err(_) => Err(DecodeError::Broken),
    }
}

/// Collects what a decoder writes, up to a limit.
struct Sink {
    data: Vec<u8>,
    max: usize,
    is_over: bool,
}

impl Sink {
    const fn new(max: usize) -> Self {
        Self { data: Vec::new(), max, is_over: false }
    }
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if self.data.len() + data.len() > self.max {
            self.is_over = true;
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.data.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

#[cfg(test)]
mod tests;
