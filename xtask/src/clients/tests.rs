//! Tests of `clients`.

use super::*;

fn names(words: &[&str]) -> Vec<&'static str> {
    let chosen = chosen(words).unwrap();
    CLIENTS.iter().filter(|client| chosen.has(client)).map(|client| client.name).collect()
}

#[test]
fn a_change_is_tried_on_the_sdks_and_four_frameworks_and_all_on_demand() {
    let few = names(&[]);
    for name in ["openai", "anthropic", "openai-node", "anthropic-node"] {
        assert!(few.contains(&name), "{name}");
    }
    for name in ["langgraph", "autogen", "smolagents", "openai-agents"] {
        assert!(few.contains(&name), "{name}");
    }
    assert_eq!(names(&["--all"]).len(), CLIENTS.len());
    assert!(few.len() < CLIENTS.len());
}

#[test]
fn clients_are_chosen_by_name() {
    assert_eq!(names(&["vercel-ai"]), ["vercel-ai"]);
    assert!(chosen(&["nobody"]).unwrap_err().contains("crewai"));
    let chosen = chosen(&["--write", "--sweep", "crewai"]).unwrap();
    assert!(chosen.is_written && chosen.is_swept);
}

#[test]
fn codex_and_gemini_are_run_for_each_change_and_all_programs_on_demand() {
    let programs = |words: &[&str]| {
        let chosen = chosen(words).unwrap();
        let programs = PROGRAMS.iter().filter(|program| chosen.has_program(program));
        programs.map(|program| program.name).collect::<Vec<_>>()
    };
    assert_eq!(programs(&[]), ["codex", "gemini"]);
    assert_eq!(programs(&["--all"]).len(), PROGRAMS.len());
    assert_eq!(programs(&["--programs", "--write"]).len(), PROGRAMS.len());
    assert_eq!(programs(&["pi"]), ["pi"]);
    assert_eq!(programs(&["openai"]), [""; 0]);
    assert!(names(&["--programs"]).is_empty());
    assert!(names(&["--intercept"]).is_empty() && programs(&["--intercept"]).is_empty());
}

#[test]
fn lines_of_readme_are_run_for_each_change_but_that_of_claude() {
    let all = readme::lines(&crate::root::root()).unwrap();
    let lines = |words: &[&str]| {
        let chosen = chosen(words).unwrap();
        all.iter().filter(|line| chosen.has_line(line)).count()
    };
    assert_eq!((lines(&[]), lines(&["--all"]), lines(&["--programs"])), (2, 3, 3));
    assert_eq!((lines(&["README"]), lines(&["pi"]), lines(&["--intercept"])), (3, 0, 0));
    assert_eq!((lines(&["README:claude"]), lines(&["README:claude", "README:codex"])), (1, 2));
    let claude = chosen(&["README:claude"]).unwrap();
    let chosen_line = all.iter().find(|line| claude.has_line(line)).unwrap();
    assert!(chosen_line.text.contains(" -- claude "), "{}", chosen_line.text);
    assert_eq!(claude.rows(), 0);
}

#[test]
fn http_clients_are_run_on_demand() {
    let http = |words: &[&str]| {
        let chosen = chosen(words).unwrap();
        HTTP_CLIENTS.iter().filter(|client| chosen.has_http(client)).count()
    };
    assert_eq!(http(&[]) + http(&["--programs"]), 0);
    assert_eq!(
        (http(&["--all"]), http(&["--intercept"])),
        (HTTP_CLIENTS.len(), HTTP_CLIENTS.len())
    );
    assert_eq!(http(&["fetch (Node)"]), 1);
}

#[test]
fn rows_are_counted_before_they_are_run() {
    let rows = |words: &[&str]| chosen(words).unwrap().rows();
    assert_eq!((rows(&["openai"]), rows(&["langgraph"]), rows(&["pi"])), (4, 6, 1));
    assert_eq!(rows(&["--intercept"]), 2 * HTTP_CLIENTS.len());
    assert_eq!(rows(&["--programs"]), PROGRAMS.len());
    assert_eq!(rows(&["codex --intercept", "nested"]), 3);
    assert!(rows(&["--all"]) > rows(&["--intercept"]) + rows(&["--programs"]));
}

#[test]
fn rows_are_put_into_the_page_as_each_client_ends() {
    let root = std::env::temp_dir().join(format!("xtask-clients-{}", std::process::id()));
    std::fs::create_dir_all(root.join("docs")).unwrap();
    let page = "# Page\n\n<!-- begin: cargo xtask clients --all --write -->\n\n\
                | c |\n| - |\n| openai | old |\n| crewai | old |\n\n<!-- end -->\n";
    std::fs::write(root.join(PAGE), page).unwrap();
    let written = |words: &[&str]| {
        let chosen = chosen(words).unwrap();
        let packages = Packages::new(&root);
        let progress = Progress::new(chosen.rows());
        let (chosen, packages) = (&chosen, &packages);
        let task =
            ClientTask { root: &root, endstop: Path::new("endstop"), chosen, packages, progress };
        let names = vec!["openai", "crewai"];
        let table = Table { task: "clients --all", names, page: table::page };
        let row = Ended { client: "openai", version: "new".to_owned(), ..Ended::default() };
        task.write(&table, &[row]).unwrap();
        std::fs::read_to_string(root.join(PAGE)).unwrap()
    };
    assert_eq!(written(&["--all"]), page);
    let written = written(&["--all", "--write"]);
    assert!(written.contains("| openai | new |") && !written.contains("openai | old"), "{written}");
    // It was not run yet, or could not be.
    assert!(written.contains("| crewai | old |"), "{written}");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn each_client_has_its_program_and_a_pinned_version() {
    let root = crate::root::root();
    for client in CLIENTS {
        assert!(root.join(list::DIRECTORY).join(client.program).exists(), "{}", client.program);
        let version = install::version(&root, client.group, client.package).unwrap();
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
    }
}
