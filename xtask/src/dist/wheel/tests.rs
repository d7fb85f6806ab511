//! Tests of `wheel`.

use std::process::Command;

use super::*;

fn sample() -> Vec<u8> {
    let licenses = [Entry::file("LICENSE-MIT", "text")];
    let tag = "manylinux_2_17_x86_64.musllinux_1_1_x86_64";
    wheel("1.2.3", tag, b"#!/bin/sh\necho ran\n", "# Readme", &licenses, Effort::Trial).unwrap()
}

#[test]
fn digests_are_in_base64_for_urls() {
    assert_eq!(base64_url(b""), "");
    assert_eq!(base64_url(b"f"), "Zg");
    assert_eq!(base64_url(b"fo"), "Zm8");
    assert_eq!(base64_url(b"foo"), "Zm9v");
    assert_eq!(base64_url(&[0xfb, 0xff]), "-_8");
}

#[test]
fn the_same_content_gives_the_same_bytes() {
    assert_eq!(sample(), sample());
}

/// Python reads the archive, and compares every file with the list.
#[test]
fn python_reads_the_wheel_and_its_list_is_right() {
    let file = std::env::temp_dir().join(format!("endstop-wheel-{}.whl", std::process::id()));
    fs::write(&file, sample()).unwrap();
    let script = "
import base64, hashlib, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
assert wheel.testzip() is None
record = wheel.read('endstop-1.2.3.dist-info/RECORD').decode().splitlines()
names = wheel.namelist()
assert names == [line.split(',')[0] for line in record], names
for line in record[:-1]:
    name, digest, length = line.split(',')
    data = wheel.read(name)
    made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')
    assert digest == 'sha256=' + made and int(length) == len(data), name
script = wheel.getinfo('endstop-1.2.3.data/scripts/endstop')
assert script.external_attr >> 16 & 0o777 == 0o755
assert script.date_time[:3] == (1980, 1, 1)
assert b'Tag: py3-none-musllinux_1_1_x86_64' in wheel.read('endstop-1.2.3.dist-info/WHEEL')
";
    let done = Command::new("python3").args(["-c", script]).arg(&file).output().unwrap();
    fs::remove_file(&file).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
