//! Tests of `lazy_store`.

use super::*;

#[test]
fn a_call_on_no_budget_does_not_wait_until_the_store_is_open() {
    let store = LazyStore { file: None, opened: OnceLock::new(), opening: Mutex::new(()) };
    let _opening = store.opening.lock().unwrap();
    assert!(store.admit().is_ok());
}
