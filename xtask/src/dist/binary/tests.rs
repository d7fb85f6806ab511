//! Tests of `binary`.

use super::*;

#[test]
fn the_newest_glibc_that_is_named_is_the_one_needed() {
    assert_eq!(glibc(b"..GLIBC_2.3.4\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE"), Some(17));
    assert_eq!(glibc(b"nothing"), None);
}

fn binary(glibc: Option<u32>) -> Binary {
    let platform = super::super::platform::PLATFORMS[0];
    Binary { path: PathBuf::new(), bytes: Vec::new(), platform, glibc, version: "1".to_owned() }
}

#[test]
fn the_tag_of_a_wheel_says_what_the_binary_needs() {
    assert_eq!(binary(Some(5)).wheel_tag(), "manylinux_2_17_x86_64");
    assert_eq!(binary(Some(39)).wheel_tag(), "manylinux_2_39_x86_64");
    assert_eq!(binary(None).wheel_tag(), "manylinux_2_17_x86_64.musllinux_1_1_x86_64");
    assert!(binary(None).is_static() && !binary(Some(17)).is_static());
}

#[test]
fn binaries_of_two_versions_are_refused() {
    let other = Binary { version: "2".to_owned(), ..binary(None) };
    assert!(Binary::common_version(&[binary(None), other]).is_err());
    assert_eq!(Binary::common_version(&[binary(None)]).unwrap(), "1");
}
