//! The framing is followed the same however the bytes are cut.

use proptest::prelude::*;

use super::*;
use crate::server::corpus::{ambiguous, plain};

const MAX_HEAD: usize = 8 << 10;

/// The place where the framing was refused, if it was, with the bytes read in pieces of the given sizes.
fn follow(bytes: &[u8], sizes: impl IntoIterator<Item = usize>) -> Result<Framing, usize> {
    let mut framing = Framing::new(MAX_HEAD, false);
    let (mut at, mut sizes) = (0, sizes.into_iter());
    while at < bytes.len() {
        let size = sizes.next().unwrap_or(bytes.len());
        let end = (at + size).min(bytes.len()).max(at + 1);
        framing.take(&bytes[at..end]).map_err(|in_piece| at + in_piece)?;
        at = end;
    }
    Ok(framing)
}

#[test]
fn plain_requests_pass_under_every_cut() {
    for (bytes, _) in plain() {
        for cut in 0..=bytes.len() {
            let framing = follow(bytes.as_bytes(), [cut]);
            assert!(framing.is_ok_and(|framing| framing.is_between()), "{bytes:?} cut at {cut}");
        }
        let one_by_one = follow(bytes.as_bytes(), std::iter::repeat(1));
        assert!(one_by_one.is_ok_and(|framing| framing.is_between()), "{bytes:?}");
    }
}

#[test]
fn ambiguous_requests_are_refused_under_every_cut_before_the_head_is_whole() {
    for (name, bytes) in ambiguous() {
        let whole = follow(&bytes, []).expect_err(&name);
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 3);
        if !name.starts_with("chunk") && !name.starts_with("two empty lines") {
            assert!(head_end.is_none_or(|end| whole <= end), "{name}: {whole} of {head_end:?}");
        }
        for cut in 0..=bytes.len().min(600) {
            let cut_at = follow(&bytes, [cut]).expect_err(&name);
            assert!(cut_at <= whole, "{name} cut at {cut}: {cut_at}, whole {whole}");
        }
        assert!(follow(&bytes, std::iter::repeat(1)).is_err(), "{name}");
    }
}

#[test]
fn a_head_without_end_is_refused() {
    let endless = [b"GET / HTTP/1.1\r\nHost: h\r\nX: ".to_vec(), vec![b'a'; 2 * MAX_HEAD]].concat();
    assert!(follow(&endless, [100]).is_err());
    let many = [b"GET / HTTP/1.1\r\n".to_vec(), b"X: a\r\n".repeat(MAX_HEAD)].concat();
    assert!(follow(&many, [100]).is_err());
    assert!(follow(&vec![b'G'; 2 * MAX_HEAD], [100]).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_refused_and_never_depend_on_cuts(
        bytes in proptest::collection::vec(prop_oneof![
            Just(b'\r'), Just(b'\n'), Just(b':'), Just(b' '), Just(b'0'), any::<u8>(),
        ], 0..200),
        start in prop_oneof![
            Just(""), Just("GET / HTTP/1.1\r\n"), Just("GET / HTTP/1.1\r\nHost: h\r\n"),
            Just("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ],
        sizes in proptest::collection::vec(1_usize..20, 0..100),
    ) {
        let bytes = [start.as_bytes(), &bytes].concat();
        let whole = follow(&bytes, []);
        let cut = follow(&bytes, sizes);
        // Bytes of an end of a chunk may be refused before its line feed has arrived.
        match (whole, cut) {
            (Ok(whole), Ok(cut)) => prop_assert_eq!(whole.state, cut.state),
            (Err(_), Err(_)) => {}
            (whole, cut) => prop_assert!(false, "{:?} and {:?}", whole.is_ok(), cut.is_ok()),
        }
    }
}

#[test]
fn what_follows_a_connect_is_not_read_where_tunnels_are_wanted() {
    let connect = b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n";
    assert!(Framing::new(MAX_HEAD, false).take(connect).is_err());
    for head in
        [&connect[..], b"CONNECT h:443 HTTP/1.0\r\n\r\n", b"CONNECT [::1]:8 HTTP/1.1\r\n\r\n"]
    {
        for cut in 0..=head.len() {
            let mut framing = Framing::new(MAX_HEAD, true);
            let tail = [&head[cut..], b"\x16\x03\x01\n\0\0 no HTTP \r\n\r\n"].concat();
            assert_eq!((framing.take(&head[..cut]), framing.take(&tail)), (Ok(()), Ok(())));
        }
    }
    for head in [
        "CONNECT h:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
        "CONNECT h:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "CONNECT http://h/ HTTP/1.1\r\n\r\n",
        "CONNECT /x HTTP/1.1\r\n\r\n",
        "CONNECT u@h:443 HTTP/1.1\r\n\r\n",
    ] {
        assert!(Framing::new(MAX_HEAD, true).take(head.as_bytes()).is_err(), "{head}");
    }
}
