//! The write-ahead log of an SQLite file, as bytes.

/// Bytes of the header of a log.
const HEADER: usize = 32;
/// Bytes of a page with its own header.
const FRAME: usize = 24 + 4_096;
/// Places between those of pages, in bytes: no divisor of them.
const STRIDE: usize = 4_001;

/// Places in a log of this length: where pages begin and end, the bytes next to these places, and some in between.
pub(crate) fn places(length: usize) -> Vec<usize> {
    let frames = (0..).map(|frame| HEADER + frame * FRAME);
    let frames = frames.take_while(|at| *at <= length);
    let near = frames.flat_map(|at| [at - 1, at, at + 1]);
    let between = (0..length).step_by(STRIDE);
    let mut places: Vec<usize> = near.chain(between).filter(|at| *at <= length).collect();
    places.sort_unstable();
    places.dedup();
    places
}
