//! Tests of `webhook`.

use super::*;

#[test]
fn a_configuration_file_that_cannot_be_looked_for_is_not_missing() {
    let name = format!("endstop-webhook-file-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    assert!(WebhookTable::read_file(file.clone()).unwrap().is_none());
    // A file in the place of a directory: the system says that, and not that there is no file.
    std::fs::write(&file, "[webhook]\nurl = \"http://127.0.0.1/a\"\nsecret_file = \"secret\"\n")
        .unwrap();
    let read = WebhookTable::read_file(file.join("config.toml"));
    let message = read.err().unwrap().message;
    assert!(message.starts_with("cannot read the configuration file `"), "{message}");
    let table = WebhookTable::read_file(file).unwrap().unwrap();
    assert_eq!(table.host(), "http://127.0.0.1");
    std::fs::remove_dir_all(&directory).unwrap();
}
