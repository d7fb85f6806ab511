//! The policy file reader: never panics; what it reads is written and read back as the same policy, and
//! compiles.

use endstop::core::probe::Probes;
use endstop::core::{Policy, Program};

/// Panics if the reader breaks its promise.
pub(crate) fn check(text: &str) {
    match Policy::from_toml(text) {
        Ok(policy) => {
            let written = policy.to_toml();
            assert_eq!(Policy::from_toml(&written).as_ref(), Ok(&policy), "{written}");
            let _ = policy.bounds();
            // Only a probe that is not registered may keep it from compiling.
            let _ = Program::new(&policy, &Probes::new());
        }
        Err(error) => assert!(!error.render(text, "fuzz", false).is_empty()),
    }
}
