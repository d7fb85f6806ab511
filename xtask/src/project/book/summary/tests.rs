//! Tests of `summary`.

use super::*;

#[test]
fn pages_come_in_the_order_of_readme_and_none_is_left_out() {
    let front = "# Endstop\n\n[install](docs/install.md)\n\n## Guides\n\n| a |\n|---|\n| [B](docs/guide/b.md) |\n\
                 | [A](docs/guide/a.md#part) |\n\n[run](docs/run.md), [install](docs/install.md)\n\n## Else\n\n[x](docs/x.md)\n";
    let pages = BTreeMap::from([
        ("README.md", front),
        ("SECURITY.md", "# Security"),
        ("docs/guide/a.md", "# Guide `a`\n"),
        ("docs/guide/b.md", "# Guide b\n"),
        ("docs/guide/c.md", "# Guide c\n"),
        ("docs/install.md", "# Install\n"),
        ("docs/run.md", "# Run\n"),
        ("docs/x.md", "# X\n"),
    ]);
    let expected = "# Summary\n\n[Introduction](README.md)\n[Install](docs/install.md)\n\n\
                    # Guides\n\n- [Guide b](docs/guide/b.md)\n- [Guide `a`](docs/guide/a.md)\n- [Guide c](docs/guide/c.md)\n\n\
                    # Reference\n\n- [Run](docs/run.md)\n\n# Background\n\n- [X](docs/x.md)\n\n\
                    # Project\n\n- [Security](SECURITY.md)\n";
    assert_eq!(of(&pages).unwrap(), expected);
}

#[test]
fn a_page_without_a_title_is_an_error() {
    let pages = BTreeMap::from([
        ("README.md", "# Endstop\n\n## Guides\n\n[a](docs/guide/a.md)"),
        ("docs/guide/a.md", "text"),
    ]);
    assert_eq!(of(&pages).unwrap_err(), "`docs/guide/a.md` has no title");
}
