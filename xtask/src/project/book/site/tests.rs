//! Tests of `site`.

use super::*;

#[test]
fn links_and_their_places_are_followed() {
    let ids = BTreeMap::from([(Path::new("docs/a.html"), BTreeSet::from(["here"]))]);
    // Any directory with a file does.
    let site = Path::new(env!("CARGO_MANIFEST_DIR"));
    let leads = |path: &str, link: &str| leads(site, &ids, Path::new(path), link);
    assert!(leads("docs/a.html", "../Cargo.toml") && leads("a.html", "src/main.rs?x=1#any"));
    assert!(leads("a.html", "https://example.com/no") && leads("a.html", "mailto:a@example.com"));
    assert!(!leads("docs/a.html", "Cargo.toml") && !leads("a.html", "src/no.rs"));
    let ids = BTreeMap::from([(Path::new("src/main.rs"), BTreeSet::from(["here"]))]);
    let leads = |link: &str| super::leads(site, &ids, Path::new("src/main.rs"), link);
    assert!(leads("#here") && leads("main.rs#here") && !leads("#there"));
    let text = "<a class=\"x\" href=\"b.html#c\"> id=&quot;no&quot; <h2 id=\"d\">";
    assert_eq!(attributes(text, "href").collect::<Vec<_>>(), ["b.html#c"]);
    assert_eq!(attributes(text, "id").collect::<Vec<_>>(), ["d"]);
}
