//! Tests of `archive`.

use super::*;
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in entries {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Names and lengths of what was handed over, and the kinds of the warnings.
fn read(bytes: Vec<u8>, limits: Limits) -> (Vec<(String, usize)>, Vec<WarningKind>) {
    let part = Part::bytes("x.eval", bytes);
    let (warnings, mut taken) = (Warnings::default(), Vec::new());
    let mut take = |name: &str, bytes: &[u8]| {
        taken.push((name.to_owned(), bytes.len()));
    };
    let is_wanted = |name: &str| !name.starts_with('_');
    let (part, is_wanted, take) = (&part, &is_wanted, &mut take as &mut EntryHandler<'_>);
    Unpack { part, is_wanted, take, warnings: &warnings, limits, entries: 0, total: 0 }.archive();
    (taken, warnings.into_list().iter().map(|warning| warning.kind).collect())
}

fn taken(names: &[(&str, usize)]) -> Vec<(String, usize)> {
    names.iter().map(|(name, length)| ((*name).to_owned(), *length)).collect()
}

#[test]
fn what_unpacks_to_more_than_the_limit_is_not_held() {
    let zeros = vec![0; 1_000_000];
    let bomb = archive(&[("a", b"1"), ("bomb", &zeros), ("b", b"22"), ("_c", b"3")]);
    assert!(bomb.len() < 10_000);
    let limits = Limits { entry_bytes: 999_999, ..LIMITS };
    let expected = (taken(&[("a", 1), ("b", 2)]), vec![WarningKind::TooLarge]);
    assert_eq!(read(bomb.clone(), limits), expected);
    let whole = Limits { entry_bytes: 1_000_000, ..LIMITS };
    let expected = taken(&[("a", 1), ("bomb", 1_000_000), ("b", 2)]);
    assert_eq!(read(bomb.clone(), whole), (expected, vec![]));
    // After the total nothing is unpacked.
    let limits = Limits { total_bytes: 999_999, ..whole };
    assert_eq!(read(bomb.clone(), limits), (taken(&[("a", 1)]), vec![WarningKind::TooLarge]));
    let limits = Limits { entries: 1, ..LIMITS };
    assert_eq!(read(bomb, limits), (taken(&[("a", 1)]), vec![WarningKind::TooLarge]));
}

#[test]
fn entries_before_a_cut_are_handed_over() {
    let whole = archive(&[("a", b"1"), ("b", b"22")]);
    let table = memchr::memmem::find(&whole, b"PK\x01\x02").unwrap();
    let expected = (taken(&[("a", 1), ("b", 2)]), vec![WarningKind::Truncated]);
    assert_eq!(read(whole[..table].to_vec(), LIMITS), expected);
    let second = memchr::memmem::rfind(&whole, b"PK\x03\x04").unwrap();
    let expected = (taken(&[("a", 1)]), vec![WarningKind::Truncated]);
    assert_eq!(read(whole[..second + 33].to_vec(), LIMITS), expected);
}

#[test]
fn a_damaged_entry_costs_only_itself() {
    let mut bytes = archive(&[("a", b"plain words"), ("b", b"22")]);
    let place = bytes.iter().position(|byte| *byte == b'a').unwrap() + 3;
    bytes[place] ^= 0x40;
    assert_eq!(read(bytes, LIMITS), (taken(&[("b", 2)]), vec![WarningKind::Malformed]));
}
