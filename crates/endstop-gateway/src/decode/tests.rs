//! Compressed answers: round trips under any cut, and data that means harm.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const MAX: usize = 1 << 20;
const TEXT: &str = "data: {\"text\":\"Hello, hello, hello!\"}\n\n";

/// `TEXT` three times, and four MiB of zeros, by the reference encoders.
const BROTLI: &str = "1b7400081c077633d74223c4e2e49fd7524481ac41d0f6fa54880e6cc0017ba2594693e19d906084704950cfd5953b5c77";
const BROTLI_BOMB: &str = "9bffff3ff82700e2b14020f7fe07";
const ZSTD: &str = "28b52ffd24752d0100e0646174613a207b2274657874223a2248656c6c6f2c206821227d0a0a0200ab14d2159726f53f0797";
const ZSTD_PIPED: &str =
    "28b52ffd00582d0100e0646174613a207b2274657874223a2248656c6c6f2c206821227d0a0a0200ab14d2159726";

/// A stream of two events in brotli, flushed after each, and its end.
const BROTLI_PARTS: [(&str, &str); 3] = [
    ("0b0580646174613a206f6e650a0a", "data: one\n\n"),
    ("5000805f5ae18dee4e11a24a04600b", "data: two\n\n"),
    ("03", ""),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd(data: &[u8]) -> Vec<u8> {
    compress_to_vec(data, CompressionLevel::Fastest)
}

fn decode(encoding: &str, parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(encoding, MAX).unwrap();
    let mut all = Vec::new();
    for part in parts {
        all.extend(decoder.push(part)?);
    }
    all.extend(decoder.finish()?);
    Ok(all)
}

/// Each encoding with data of it and what it stands for.
fn samples() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let text = TEXT.repeat(3).into_bytes();
    let two_members = [gzip(TEXT.as_bytes()), gzip(TEXT.as_bytes())].concat();
    let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9][..], &zstd(&text)].concat();
    vec![
        ("gzip", gzip(&text), text.clone()),
        ("X-GZip", two_members, TEXT.repeat(2).into_bytes()),
        ("deflate", zlib(&text), text.clone()),
        (" deflate ", deflate(&text), text.clone()),
        ("br", bytes(BROTLI), text.clone()),
        ("zstd", zstd(&text), text.clone()),
        ("zstd", skipped, text.clone()),
        ("zstd", bytes(ZSTD), text.clone()),
        ("zstd", [bytes(ZSTD_PIPED), bytes(ZSTD)].concat(), TEXT.repeat(6).into_bytes()),
        ("identity", text.clone(), text),
    ]
}

#[test]
fn every_encoding_yields_the_same_under_every_cut() {
    for (encoding, data, text) in samples() {
        for cut in 0..=data.len() {
            let (head, tail) = data.split_at(cut);
            assert_eq!(decode(encoding, &[head, tail]).unwrap(), text, "{encoding} cut at {cut}");
        }
        let one_by_one: Vec<_> = data.chunks(1).collect();
        assert_eq!(decode(encoding, &one_by_one).unwrap(), text, "{encoding}");
    }
}

#[test]
fn data_that_ends_early_is_broken() {
    for (encoding, data, _) in samples() {
        let member = gzip(TEXT.as_bytes()).len();
        // Between two members, and without compression, an end is an end.
        let is_end = |cut: usize| match encoding {
            "identity" => true,
            "X-GZip" => cut == member,
            "zstd" => cut == 11 || cut == bytes(ZSTD_PIPED).len(),
            _ => false,
        };
        for cut in (1..data.len()).filter(|cut| !is_end(*cut)) {
            assert_eq!(
                decode(encoding, &[&data[..cut]]),
                Err(DecodeError::Broken),
                "{encoding} {cut}"
            );
        }
    }
}

#[test]
fn an_event_that_is_flushed_is_read_at_once() {
    let mut decoder = Decoder::new("br", MAX).unwrap();
    for (part, text) in BROTLI_PARTS {
        assert_eq!(decoder.push(&bytes(part)).unwrap(), text);
    }
    assert_eq!(decoder.finish().unwrap(), "");

    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut decoder = Decoder::new("gzip", MAX).unwrap();
    for text in ["data: one\n\n", "data: two\n\n"] {
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.flush().unwrap();
        assert_eq!(decoder.push(&std::mem::take(encoder.get_mut())).unwrap(), text);
    }
    decoder.push(&encoder.finish().unwrap()).unwrap();
    assert_eq!(decoder.finish().unwrap(), "");
}

#[test]
fn data_that_yields_too_much_is_refused_without_being_unpacked() {
    let zeros = vec![0; 4 << 20];
    for (encoding, bomb) in [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("deflate", deflate(&zeros)),
        ("br", bytes(BROTLI_BOMB)),
        ("zstd", zstd(&zeros)),
        ("identity", zeros),
    ] {
        let mut decoder = Decoder::new(encoding, MAX).unwrap();
        assert_eq!(decoder.push(&bomb), Err(DecodeError::TooLarge), "{encoding}");
        assert_eq!(decoder.push(b"more"), Err(DecodeError::TooLarge), "{encoding}");
        assert_eq!(decoder.finish(), Err(DecodeError::TooLarge), "{encoding}");
    }
}

#[test]
fn a_window_that_is_too_large_is_refused_before_it_is_made() {
    // One of 16 MiB, and a single segment that says it has 16 MiB.
    for head in ["28b52ffd0070", "28b52ffda000000001"] {
        let mut decoder = Decoder::new("zstd", MAX).unwrap();
        assert_eq!(decoder.push(&bytes(head)), Err(DecodeError::TooLarge), "{head}");
    }
}

#[test]
fn encodings_that_are_not_known_or_stacked_are_refused() {
    for encoding in ["compress", "gzip, br", "gzip,gzip", "x", "\0"] {
        assert_eq!(Decoder::new(encoding, MAX).err(), Some(DecodeError::Unknown), "{encoding}");
    }
}

#[test]
fn an_answer_without_a_body_decodes_to_nothing() {
    for encoding in ["", "identity", "gzip", "deflate", "br", "zstd"] {
        assert_eq!(decode(encoding, &[]), Ok(Vec::new()), "{encoding}");
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail_and_stay_within_the_bound(
        encoding in prop_oneof![Just("gzip"), Just("deflate"), Just("br"), Just("zstd")],
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0_usize..100,
    ) {
        let mut data = samples().into_iter().find(|(name, ..)| *name == encoding).unwrap().1;
        let at = at.min(data.len());
        data.splice(at.., noise);
        let mut decoder = Decoder::new(encoding, 4096).unwrap();
        for part in data.chunks(13) {
            if let Ok(out) = decoder.push(part) {
                prop_assert!(out.len() <= 4096);
            }
        }
        let _ = decoder.finish();
    }
}
