//! Tests of `seal`.

use super::*;

const EVENT: &[u8] = b"{\"at\":";
const LINES: [&str; 3] = ["{\"a\":1}", "{\"b\":\"é\"}", "{\"c\":3}"];

fn sealed() -> Vec<Vec<u8>> {
    let (mut chain, mut file) = (LineChain::default(), Vec::new());
    LINES.iter().for_each(|line| chain.seal(line.as_bytes(), &mut file));
    file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

fn checked(lines: &[Vec<u8>]) -> Result<u64, SealError> {
    let mut chain = LineChain::default();
    lines.iter().try_for_each(|line| chain.check(line))?;
    Ok(chain.lines())
}

#[test]
fn sealed_lines_are_json_with_what_they_had() {
    let lines = sealed();
    assert_eq!(checked(&lines), Ok(3));
    for (number, line) in lines.iter().enumerate() {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert_eq!(value["seq"], number);
    }
    assert!(lines[1].starts_with("{\"b\":\"é\",\"seq\":1,\"sum\":\"".as_bytes()));
    let without: Vec<_> = lines.iter().map(|line| unsealed(line).unwrap()).collect();
    assert_eq!(without, LINES.map(|line| line.as_bytes().to_vec()));
    assert_eq!(unsealed(b"{\"a\":1}"), None);
}

#[test]
fn lines_that_were_changed_moved_repeated_or_removed_are_found() {
    let lines = sealed();
    let of = |order: &[usize]| order.iter().map(|at| lines[*at].clone()).collect::<Vec<_>>();
    let sequence = |found, expected| Err(SealError::Sequence { found, expected });
    assert_eq!(checked(&of(&[0, 2])), sequence(2, 1));
    assert_eq!(checked(&of(&[1, 0, 2])), sequence(1, 0));
    assert_eq!(checked(&of(&[0, 1, 1, 2])), sequence(1, 2));
    for line in 0..lines.len() {
        for at in 0..lines[line].len() {
            for bit in 0..8 {
                let mut changed = lines.clone();
                changed[line][at] ^= 1 << bit;
                assert!(checked(&changed).is_err(), "line {line}, byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn a_mark_counts_the_lines_of_its_own_file() {
    let mut file = Vec::new();
    let mut chain = LineChain::default();
    chain.seal(LINES[0].as_bytes(), &mut file);
    let (plain, first) = (file.clone(), chain.sum());
    let at = push_mark(&mut file, &mark(7, first));
    assert_eq!(file[at..][..MARK_BYTES], mark(7, first));
    let (sealed, found) = split_mark(file.strip_suffix(b"\n").unwrap()).unwrap();
    assert_eq!(sealed, plain.strip_suffix(b"\n").unwrap());
    assert_eq!(marked_lines(found, first), Some(7));
    assert_eq!(marked_lines(found, first ^ 1), None);
    let mut changed = *found;
    changed[COUNT_DIGITS - 1] = b'6';
    assert_eq!(marked_lines(&changed, first), None);
}

#[test]
fn half_a_line_begins_as_a_line_does() {
    for torn in ["", "{", "{\"a", "{\"at\":1,\"event\":\"pie"] {
        assert!(is_torn_line(torn.as_bytes(), EVENT), "{torn}");
    }
    for garbage in
        [&b"\0\0"[..], b"x", b"{\"bt\":", b"{\"at\":\x01", b"{\"at\":\xff\xfe1", b"\xef\xbb\xbf"]
    {
        assert!(!is_torn_line(garbage, EVENT), "{garbage:?}");
    }
    let cut = "{\"at\":1,\"text\":\"é";
    assert!(is_torn_line(&cut.as_bytes()[..cut.len() - 1], EVENT));
}
