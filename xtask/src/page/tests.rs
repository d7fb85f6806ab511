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
