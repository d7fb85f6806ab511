//! The splitter of event streams: its events do not depend on how a stream is split into chunks, and no byte is lost.

use endstop_llm::sse::SseSplitter;

/// Beyond this an event is too long.
const MAX_EVENT: usize = 1_024;

/// The events of a stream: name and data of each, all bytes in order, and whether an event was too long.
#[derive(Debug, Default, PartialEq)]
struct Read {
    events: Vec<Option<(String, String)>>,
    bytes: Vec<u8>,
    is_too_long: bool,
}

fn read<'c>(chunks: impl Iterator<Item = &'c [u8]>) -> Read {
    let (mut splitter, mut read) = (SseSplitter::new(MAX_EVENT), Read::default());
    for chunk in chunks {
        if read.is_too_long {
            read.bytes.extend_from_slice(chunk);
            continue;
        }
        let mut left = chunk;
        loop {
            match splitter.next_frame(&mut left) {
                Ok(Some(frame)) => {
                    let event = frame.event();
                    read.events.push(event.map(|it| (it.name.to_owned(), it.data.to_owned())));
                    read.bytes.extend_from_slice(frame.raw);
                }
                Ok(None) => break,
                Err(_) => {
                    read.is_too_long = true;
                    read.bytes.extend_from_slice(&splitter.take_rest());
                    read.bytes.extend_from_slice(left);
                    break;
                }
            }
        }
    }
    if !read.is_too_long {
        read.bytes.extend_from_slice(&splitter.take_rest());
    }
    read
}

/// Panics if the reader breaks its promise.
pub(crate) fn check(input: (Vec<u8>, Vec<u8>)) {
    let (stream, cuts) = input;
    let whole = read(std::iter::once(&*stream));
    assert_eq!(whole.bytes, stream, "no byte is lost");
    let mut left = &*stream;
    let mut chunks = Vec::new();
    for cut in cuts {
        let (chunk, rest) = left.split_at(usize::from(cut).min(left.len()));
        chunks.push(chunk);
        left = rest;
    }
    chunks.push(left);
    let parts = read(chunks.into_iter());
    assert_eq!(parts.bytes, stream, "no byte is lost");
    if !whole.is_too_long && !parts.is_too_long {
        assert_eq!(parts.events, whole.events);
    }
}
