//! The reference of the command line, from its help texts.

use clap::Command;

/// Width of the help texts on the page; a terminal's own width must not change it.
const COLUMNS: usize = 100;

/// The whole page.
pub(super) fn page() -> String {
    let mut root = endstop_cli::command().disable_help_subcommand(true).term_width(COLUMNS);
    root.build();
    let mut page = String::from(
        "# Command line\n\nGenerated from the help texts by `cargo xtask docs`; do not edit it.\n",
    );
    section(&mut page, &mut root, "endstop");
    page
}

fn section(page: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n")));
    for subcommand in command.get_subcommands_mut() {
        let name = format!("{name} {}", subcommand.get_name());
        section(page, subcommand, &name);
    }
}

#[cfg(test)]
mod tests;
