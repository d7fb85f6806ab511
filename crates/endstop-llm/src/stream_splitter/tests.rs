//! Tests of `stream_splitter`.

use super::*;

const LIST: &str = "[{\"a\": \"}]\\\"{\"}\r\n,\r\n{\"b\":[{}, {}]} , 7,{}\n]\n";

/// The frames and their objects of a list in chunks of a size, and the rest.
fn frames(list: &[u8], size: usize, max: usize) -> (Vec<(Vec<u8>, String)>, Vec<u8>) {
    let mut splitter = JsonListSplitter::new(max);
    let mut all = Vec::new();
    for chunk in list.chunks(size) {
        let mut left = chunk;
        while let Some(frame) = splitter.next_frame(&mut left).unwrap() {
            all.push((frame.raw.to_vec(), frame.event().unwrap().data.to_owned()));
        }
    }
    (all, splitter.take_rest())
}

#[test]
fn a_list_is_cut_into_its_objects_however_it_comes() {
    let whole = frames(LIST.as_bytes(), LIST.len(), 1_000);
    let data: Vec<&str> = whole.0.iter().map(|(_, data)| data.as_str()).collect();
    assert_eq!(data, ["{\"a\": \"}]\\\"{\"}", "{\"b\":[{}, {}]}", "{}"]);
    for size in 1..LIST.len() {
        assert_eq!(frames(LIST.as_bytes(), size, 1_000), whole, "{size}");
    }
    let raw: Vec<u8> = whole.0.iter().flat_map(|(raw, _)| raw.clone()).chain(whole.1).collect();
    assert_eq!(raw, LIST.as_bytes());
}

#[test]
fn what_is_no_list_and_what_is_too_long_is_left_over() {
    assert_eq!(frames(b"no list ]}", 3, 1_000), (Vec::new(), b"no list ]}".to_vec()));
    assert_eq!(frames(b"{\"error\":{}}", 2, 1_000).0.len(), 1);
    let mut splitter = JsonListSplitter::new(8);
    assert!(splitter.next_frame(&mut &b"[{\"a\":\"bcdefgh\"}]"[..]).is_err());
    assert_eq!(splitter.take_rest(), b"[{\"a\":\"bcdefgh\"}");
}
