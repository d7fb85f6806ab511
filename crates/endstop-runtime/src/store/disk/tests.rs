//! Tests of `disk`.

use super::*;

#[test]
fn files_of_the_user_and_of_root_are_trusted_and_root_trusts_all() {
    for (owner, user, wanted) in
        [(1000, 1000, true), (0, 1000, true), (1001, 1000, false), (1001, 0, true), (0, 0, true)]
    {
        assert_eq!(is_trusted_owner(owner, user), wanted, "{owner} {user}");
    }
}
