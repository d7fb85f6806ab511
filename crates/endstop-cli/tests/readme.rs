//! Every `console` block of the README and of the guides is run, and has to print what they say.

#[test]
fn pages_print_what_they_say() {
    // Paths in the pages are relative to the root of a checkout.
    std::env::set_current_dir("../..").expect("the root of the checkout");
    trycmd::TestCases::new().case("README.md").case("docs/guide/*.md");
}

/// The picture of the first screen has the output as its description. It was drawn from a terminal, so lines are wrapped
/// elsewhere than here, and its times are made up.
#[test]
fn the_picture_shows_what_its_command_prints() {
    let picture = std::fs::read_to_string("../../docs/pictures/run.svg").expect("the picture");
    let (_, rest) = picture.split_once("<desc>$ endstop ").expect("a description with a command");
    let (description, _) = rest.split_once("</desc>").expect("an end of the description");
    let (command, shown) = description.split_once('\n').expect("output below the command");
    let readme = std::fs::read_to_string("../../README.md").expect("README");
    assert!(readme.contains(&format!("\nendstop {command}\n")), "README has no `{command}`");
    assert!(readme.contains("(docs/pictures/run.svg)"));

    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let place = endstop.parent().expect("a directory").display();
    let path = format!("{place}:{}", std::env::var("PATH").expect("a path"));
    let output = std::process::Command::new(endstop)
        .args(command.replace("--pause 1s", "--pause 1ms").split(' '))
        .env("PATH", path)
        .env_remove("ENDSTOP_RUN")
        .output()
        .expect("the command");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).expect("text");
    let shown = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert_eq!(words(&shown), words(&printed), "`cargo xtask picture` draws it again");
}

/// The words without times, sorted: lines of the agent and of Endstop come in any order.
fn words(text: &str) -> Vec<&str> {
    let is_time = |word: &str| {
        let number = word.strip_suffix("ms").or_else(|| word.strip_suffix('s'));
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    let mut words: Vec<&str> = text.split_whitespace().filter(|word| !is_time(word)).collect();
    words.sort_unstable();
    words
}
