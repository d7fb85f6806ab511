//! Every `console` block of the README is run, and has to print what the README says.

#[test]
fn readme_commands_print_what_it_says() {
    trycmd::TestCases::new().case("../../README.md");
}
