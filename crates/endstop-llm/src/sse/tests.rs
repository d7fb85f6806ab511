//! Tests of separating events.

use proptest::prelude::*;

use super::{SseSplitter, TooLong};

type Read = (Vec<u8>, Option<(String, String)>);

/// All frames of a stream that comes in these chunks, and the rest.
fn split(chunks: &[&[u8]], max: usize) -> (Vec<Read>, Vec<u8>, bool) {
    let mut splitter = SseSplitter::new(max);
    let mut frames = Vec::new();
    let mut rest = Vec::new();
    let mut is_lost = false;
    for chunk in chunks {
        let mut chunk = *chunk;
        while !is_lost {
            match splitter.next_frame(&mut chunk) {
                Ok(Some(frame)) => {
                    let event = frame.event().map(|it| (it.name.to_owned(), it.data.to_owned()));
                    frames.push((frame.raw.to_vec(), event));
                }
                Ok(None) => break,
                Err(TooLong { .. }) => is_lost = true,
            }
        }
        if is_lost {
            rest.extend(splitter.take_rest());
            rest.extend_from_slice(chunk);
        }
    }
    rest.extend(splitter.take_rest());
    (frames, rest, is_lost)
}

fn events(text: &str) -> Vec<(String, String)> {
    let (frames, _, _) = split(&[text.as_bytes()], 1 << 20);
    frames.into_iter().filter_map(|(_, event)| event).collect()
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn lines_end_with_any_of_the_three_line_ends() {
    for end in ["\n", "\r\n", "\r"] {
        let text =
            ["event: a", "data: 1", "data:2", "", ": comment", "", "data:  3", "", ""].join(end);
        assert_eq!(events(&text), [event("a", "1\n2"), event("", " 3")], "{end:?}");
    }
    assert_eq!(events("data: 1\r\n\ndata: 2\n\r\ndata: 3\r\n\r\n").len(), 3);
}

#[test]
fn fields_are_read_as_the_standard_says() {
    assert_eq!(events("\u{feff}data: x\n\n"), [event("", "x")]);
    assert_eq!(events("data\n\n"), [event("", "")]);
    assert_eq!(events("event: only\n\n"), []);
    assert_eq!(events("id: 1\nretry: 5\ndata: a:b\nevent: n\nother\n\n"), [event("n", "a:b")]);
    assert_eq!(events("data: no end\n"), []);
}

#[test]
fn a_stream_may_leave_out_the_last_line_ends() {
    let mut splitter = SseSplitter::new(100);
    let mut chunk = &b"data: 1\n\ndata: [DONE]"[..];
    assert!(splitter.next_frame(&mut chunk).unwrap().is_some());
    assert!(splitter.next_frame(&mut chunk).unwrap().is_none());
    assert_eq!(splitter.last_frame().unwrap().event().unwrap().data, "[DONE]");
    assert_eq!(splitter.take_rest(), b"data: [DONE]");
    assert!(splitter.last_frame().is_none());
}

#[test]
fn an_event_is_given_as_soon_as_its_blank_line_is_there() {
    for text in ["data: 1\n\n", "data: 1\r\r", "data: 1\r\n\r\n"] {
        let mut splitter = SseSplitter::new(100);
        let mut chunk = text.as_bytes();
        let frame = splitter.next_frame(&mut chunk).unwrap().unwrap();
        assert_eq!(frame.raw, text.as_bytes());
    }
}

#[test]
fn bytes_that_are_no_text_pass() {
    let bytes = b"data: \xff\xfe{\n\ndata: ok\n\n";
    let (frames, rest, _) = split(&[bytes], 100);
    assert_eq!(frames[0].0, b"data: \xff\xfe{\n\n");
    assert_eq!(frames[0].1, Some(event("", "\u{fffd}\u{fffd}{")));
    assert_eq!((frames.len(), rest.len()), (2, 0));
}

#[test]
fn an_event_that_is_too_long_ends_the_reading_and_loses_nothing() {
    let text = b"data: 1\n\ndata: 0123456789\n\ndata: 2\n\n";
    for cut in 0..text.len() {
        let (head, tail) = text.split_at(cut);
        let (frames, rest, is_lost) = split(&[head, tail], 12);
        assert!(is_lost);
        assert_eq!(frames.len(), 1);
        let all: Vec<u8> = frames.into_iter().flat_map(|(raw, _)| raw).chain(rest).collect();
        assert_eq!(all, text);
    }
}

/// Streams of the bytes that matter.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"data: "[..]),
        2 => Just(&b"event: x"[..]),
        6 => Just(&b"\n"[..]),
        4 => Just(&b"\r"[..]),
        4 => Just(&b"\r\n"[..]),
        1 => Just(&b"\n\n"[..]),
        1 => Just(&b"\xef\xbb\xbf"[..]),
        1 => Just("é𝄞".as_bytes()),
        1 => Just(&b"\xff"[..]),
        1 => Just(&b": comment"[..]),
        2 => Just(&b"{\"a\":\"b\"}"[..]),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_the_cuts(
        stream in streams(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        max in 1_usize..120,
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        let whole = split(&[&stream], max);
        prop_assert_eq!(&split(&chunks, max), &whole);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(&split(&bytes, max), &whole);
        let all: Vec<u8> = whole.0.iter().flat_map(|(raw, _)| raw.clone()).chain(whole.1).collect();
        prop_assert_eq!(all, stream);
    }
}
