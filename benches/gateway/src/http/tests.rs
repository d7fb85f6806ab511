//! Tests of `http`.

use super::*;

#[test]
fn chunks_are_read_wherever_they_are_cut() {
    let wire = b"4\r\nWiki\r\n5;x=y\r\npedia\r\n0\r\nA: b\r\n\r\nGET";
    for cut in 0..wire.len() {
        let mut chunks = Chunks::default();
        let (mut body, mut unread) = (Vec::new(), Vec::new());
        for piece in [&wire[..cut], &wire[cut..]] {
            unread.extend_from_slice(piece);
            let taken = chunks.decode(&unread, &mut body).unwrap();
            unread.drain(..taken);
        }
        assert_eq!(body, b"Wikipedia", "cut at {cut}");
        assert_eq!(chunks, Chunks::Done);
        assert_eq!(unread, b"GET");
    }
}

#[test]
fn what_is_no_chunk_is_an_error() {
    assert!(Chunks::default().decode(b"zz\r\n", &mut Vec::new()).is_err());
}

#[test]
fn heads_tell_status_and_framing() {
    let answer = Head::read("HTTP/1.1 200 OK\r\nContent-Length: 12", false);
    assert_eq!((answer.status(), answer.framing), (200, Framing::Length(12)));
    let request = Head::read("POST / HTTP/1.1\r\ntransfer-encoding: chunked", true);
    assert_eq!(request.framing, Framing::Chunked);
    assert_eq!(Head::read("GET / HTTP/1.1", true).framing, Framing::Length(0));
}
