//! Tests of `bodies`.

use super::*;

#[test]
fn sizes_are_those_that_the_page_names() {
    assert_eq!(answer().len(), JSON_BYTES);
    assert_eq!(events().len(), EVENTS);
    let request = request(Kind::Json).len();
    assert!((1_100..1_300).contains(&request), "{request}");
    let stream: usize = events().iter().map(Vec::len).sum();
    assert!((9_000..11_000).contains(&stream), "{stream}");
}
