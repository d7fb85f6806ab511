//! Tests of `mini_swe_agent`.

use super::*;

#[test]
fn bash_blocks_are_counted_as_the_tool_counts_them() {
    for (text, count) in [
        ("", 0),
        ("```bash\nls\n```", 1),
        ("THOUGHT\n```bash\nls && cat a\n```\nmore", 1),
        ("```bash\nls\n```\n```bash\npwd\n```", 2),
        ("```bash ls```", 0),
        ("```python\nls\n```", 0),
        ("```bash\nls", 0),
        ("```bash\n\n```", 0),
        ("```bashful\nx\n```", 0),
    ] {
        assert_eq!(bash_blocks(text).len(), count, "{text}");
    }
}
