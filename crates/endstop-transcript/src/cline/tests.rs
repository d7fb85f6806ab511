//! Results and models in the texts of requests.

use super::results::{model_in, results_in};

#[test]
fn results_are_what_follows_their_heads() {
    let request = "[read_file for 'a.rs'] Result:\n\nfn main() {}\n\n[execute_command for 'ls'] Result:\nCommand executed.\n[x]\n\
                   \n\n# Todo List (Optional)\n\n[not] Result:\n<environment_details>\n<model>m-1</model>";
    assert_eq!(results_in(request), ["fn main() {}", "Command executed.\n[x]"]);
    assert_eq!(model_in(request), Some("m-1"));
    assert!(results_in("<task>\nSay [this] Result: no\n</task>").is_empty());
    assert_eq!(model_in("<model>two words</model>"), None);
}
