//! Tests of `page`.

use super::*;

#[test]
fn only_what_is_between_the_marks_of_the_task_is_replaced() {
    let page = format!("a\n{}old\n{END}b\n", begin("it"));
    let once = insert(&page, "it", "new").unwrap();
    assert_eq!(once, format!("a\n{}\nnew\n{END}b\n", begin("it")));
    assert_eq!(insert(&once, "it", "new").unwrap(), once);
    assert_eq!(insert(&page, "other", "new"), None);
}

#[test]
fn a_page_is_replaced_as_a_whole() {
    let root = std::env::temp_dir().join(format!("xtask-page-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("page.md"), format!("a\n{}old\n{END}b\n", begin("x"))).unwrap();
    write(&root, "page.md", "x", "new").unwrap();
    assert_eq!(read(&root, "page.md", "x"), "new");
    let whole = fs::read_to_string(root.join("page.md")).unwrap();
    assert!(whole.starts_with("a\n") && whole.ends_with("b\n"), "{whole}");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing else is left");
    assert!(write(&root, "page.md", "y", "new").is_err());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn rows_of_some_names_are_replaced_in_their_order() {
    let old = "| n | v |\n| - | - |\n| a | 1 |\n| gone | 1 |\n| c | 1 |\n| c | 2 |";
    let new = "| n | v |\n| - | - |\n| c | 3 |\n| b | 3 |\n";
    let expected = "| n | v |\n| - | - |\n| a | 1 |\n| b | 3 |\n| c | 3 |\n";
    assert_eq!(merged(old, new, &["a", "b", "c"]), expected);
    assert_eq!(merged("", new, &["b", "c"]).lines().count(), 4);
}

#[test]
fn rows_with_the_same_first_cell_belong_together() {
    let old = "| n | v |\n| - | - |\n| a | 1 |\n| b | 1 |\n| b | 2 |\n| b | 3 |";
    let new = "| n | v |\n| - | - |\n| b | 4 |\n| b | 5 |\n";
    let expected = "| n | v |\n| - | - |\n| a | 1 |\n| b | 4 |\n| b | 5 |\n";
    assert_eq!(merged(old, new, &["a", "b"]), expected);
}

#[test]
fn rows_of_other_names_stay_in_the_page() {
    let root = std::env::temp_dir().join(format!("xtask-merge-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    let old = "| n | v |\n| - | - |\n| a | 1 |\n| b | 1 |";
    fs::write(root.join("page.md"), format!("x\n{}\n{old}\n\n{END}y\n", begin("x"))).unwrap();
    merge(&root, "page.md", "x", "| n | v |\n| - | - |\n| b | 2 |\n", &["a", "b"]).unwrap();
    let whole = fs::read_to_string(root.join("page.md")).unwrap();
    assert!(whole.contains("| a | 1 |\n| b | 2 |\n"), "{whole}");
    assert!(!whole.contains("| b | 1 |"), "{whole}");
    assert!(merge(&root, "page.md", "y", old, &["a"]).is_err(), "the page has no table of it");
    fs::remove_dir_all(root).unwrap();
}
