//! Tests of `text`.

use super::*;

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Record<'a> {
    text: Option<Text<'a>>,
}

#[test]
fn texts_are_copied_only_where_they_have_escapes() {
    for (json, is_borrowed) in [(r#"{"text":"plain"}"#, true), (r#"{"text":"a\nb"}"#, false)] {
        let record: Record<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(matches!(record.text, Some(Text(Cow::Borrowed(_)))), is_borrowed, "{json}");
    }
}
