//! Every `console` block of the README and of the guides is run, and has to print what they say.

#[test]
fn pages_print_what_they_say() {
    // Paths in the pages are those of somebody at the root of a checkout.
    std::env::set_current_dir("../..").expect("the root of the checkout");
    trycmd::TestCases::new().case("README.md").case("docs/guide/*.md");
}
