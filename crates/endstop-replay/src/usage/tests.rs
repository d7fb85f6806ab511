//! Tests of `usage`.

use super::*;

#[test]
fn names_beyond_the_limit_are_counted_together() {
    let mut tools: BTreeMap<String, ToolUsage> = BTreeMap::new();
    for number in 0..MAX_NAMES + 10 {
        tally(&mut tools, &number.to_string(), |tool| tool.calls += 1);
    }
    tally(&mut tools, "7", |tool| tool.calls += 1);
    assert_eq!((tools.len(), tools["7"].calls), (MAX_NAMES + 1, 2));
    assert_eq!(tools[OTHERS].calls, 10);
}
