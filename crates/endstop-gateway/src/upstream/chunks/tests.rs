//! Chunks that are put together say the same as before, however they are read.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A reader's view of chunks: the bytes of the body, and the rest after the last plain chunk.
fn said(framed: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut body, mut left) = (Vec::new(), framed);
    loop {
        let Some(end) = memchr(b'\n', left) else { return (body, left.to_vec()) };
        let size = left[..end].strip_suffix(b"\r").and_then(|size| std::str::from_utf8(size).ok());
        let is_size = |size: &&str| {
            (1..=MAX_CHUNK_DIGITS).contains(&size.len())
                && size.bytes().all(|it| it.is_ascii_hexdigit())
        };
        let size = size.filter(is_size).and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { return (body, left.to_vec()) };
        let data = &left[end + 1..];
        if data.len() < size + 2 {
            // An incomplete chunk contains its available part.
            body.extend_from_slice(&data[..data.len().min(size)]);
            return (body, data[data.len().min(size)..].to_vec());
        }
        body.extend_from_slice(&data[..size]);
        let Some(next) = data[size..].strip_prefix(b"\r\n") else {
            return (body, data[size..].to_vec());
        };
        left = next;
    }
}

fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
    let chunk =
        |part: &Vec<u8>| [format!("{:X}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    parts.iter().flat_map(chunk).collect()
}

/// The results of reads of these lengths, in turn.
fn read(place: &mut ChunkPosition, all: &[u8], cuts: &[usize]) -> Vec<u8> {
    let (mut out, mut left) = (Vec::new(), all);
    let mut cuts = cuts.iter().cycle();
    while !left.is_empty() {
        let cut = cuts.next().map_or(left.len(), |cut| (*cut).clamp(1, left.len()));
        let mut part = left[..cut].to_vec();
        let length = place.take(&mut part);
        assert!((1..=part.len()).contains(&length), "a read of nothing is an end");
        out.extend_from_slice(&part[..length]);
        left = &left[cut..];
    }
    out
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    let framing =
        prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'1'), Just(b'a'), any::<u8>()];
    prop_oneof![vec(framing, 1..12), vec(any::<u8>(), 1..40), vec(Just(b'x'), 200..300)]
}

proptest! {
    #[test]
    fn the_body_is_the_same_however_it_is_read(
        parts in vec(part(), 0..30), cuts in vec(1usize..400, 1..20),
    ) {
        let all = [&*framed(&parts), b"0\r\n\r\n"].concat();
        let mut place = BETWEEN;
        let out = read(&mut place, &all, &cuts);
        prop_assert_eq!(said(&out), (parts.concat(), b"0\r\n\r\n".to_vec()));
        prop_assert!(out.len() <= all.len());
    }

    #[test]
    fn what_is_read_at_once_is_one_chunk(parts in vec(part(), 1..30)) {
        let all = [HEAD, &framed(&parts), b"0\r\n\r\n"].concat();
        let mut place = ChunkPosition::Head;
        let out = read(&mut place, &all, &[]);
        let one = framed(&[parts.concat()]);
        prop_assert_eq!(out.to_ascii_lowercase(), [HEAD, &one, b"0\r\n\r\n"].concat().to_ascii_lowercase());
    }

    #[test]
    fn what_is_no_plain_chunk_stays_as_it_is(
        parts in vec(part(), 0..6), garbage in vec(any::<u8>(), 0..60), cuts in vec(1usize..80, 1..9),
    ) {
        let all = [framed(&parts), garbage].concat();
        let out = read(&mut { BETWEEN }, &all, &cuts);
        prop_assert_eq!(said(&out), said(&all));
        let unknown = read(&mut { ChunkPosition::Unknown }, &all, &cuts);
        prop_assert_eq!(unknown, all.clone());
        let no_head = read(&mut { ChunkPosition::Head }, &all, &[]);
        prop_assert_eq!(no_head, all);
    }
}

#[test]
fn only_a_body_that_is_plainly_in_chunks_is_touched() {
    let two = framed(&[b"one".to_vec(), b"two".to_vec()]);
    let is_touched = |head: &str| {
        let all = [head.as_bytes(), &two].concat();
        read(&mut { ChunkPosition::Head }, &all, &[]) != all
    };
    assert!(is_touched("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    assert!(is_touched("HTTP/1.1 500 Oh\r\nA: b\r\ntransfer-encoding:Chunked\r\nC: d\r\n\r\n"));
    for other in [
        "HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nx\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\n\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
    ] {
        assert!(!is_touched(other), "{other:?}");
    }
}

#[test]
fn a_read_that_ends_within_a_chunk_is_put_together_up_to_there_and_followed() {
    let first = framed(&[b"one".to_vec(), b"two".to_vec()]);
    let (mut place, mut full) = (BETWEEN, [&*first, b"3\r\nth"].concat());
    let length = place.take(&mut full);
    assert_eq!(full[..length], *b"6\r\nonetwo\r\n3\r\nth");
    let mut next = b"e\r\n1\r\na\r\n1\r\nb\r\n".to_vec();
    let length = place.take(&mut next);
    assert_eq!(next[..length], *b"e\r\n2\r\nab\r\n");
}
