//! Tests of the recorded quirks of models and upstreams.

use super::*;

#[test]
fn what_a_model_takes_is_kept_and_bounded() {
    let caps = QuirkCache::default();
    assert_eq!(caps.output_cap("openai", "a", 32_000), 32_000);
    let variant = RequestVariant { no_usage: true, ..RequestVariant::default() };
    caps.remember_model("openai", "a", Some(16_384), RequestVariant::default());
    caps.remember_model("openai", "a", None, variant);
    assert_eq!(caps.of_model("openai", "a").variant, variant);
    assert_eq!(caps.output_cap("openai", "a", 32_000), 16_384);
    assert_eq!(caps.output_cap("openai", "a", 100), 100);
    (0..3_000).for_each(|n| caps.remember_model("openai", &n.to_string(), Some(16), variant));
    assert!(caps.models().len() <= MAX_CACHED_MODELS);
}
