//! `endstop config`: the defaults that hold, and where each is from; the budgets and the webhook of the file.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use endstop::core::policy::Policy;
use serde_json::{Value, json};

use super::check::budget_json;
use super::redact;
use crate::budgets::{Budgets, in_full};
use crate::defaults::{DefaultValue, Defaults};
use crate::error::CliError;
use crate::output;
use crate::webhook::WebhookTable;

const HELP: &str = "\
Examples:
  endstop config
  ENDSTOP_USD=2 endstop config --json

A key of the file is an option: `usd = 2` at the top applies to every command
with --usd, and under `[run]` to `endstop run` alone. Variables have the same
names in capitals: ENDSTOP_USD, ENDSTOP_RUN_USD. The command line takes
precedence over variables, and variables over the file. ENDSTOP_CONFIG names
another file; if it is empty, no file is read. The budgets and the webhook that
the file defines are printed too, without secrets.";

/// Arguments of `endstop config`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One line: the commands for which the same value from the same place holds.
struct SettingLine<'d> {
    default: &'d DefaultValue,
    commands: Vec<&'d str>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the configuration is wrong.
pub fn run(args: &ConfigArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let defaults = Defaults::load(&crate::command(), |name| std::env::var_os(name))?;
    let lines = lines(defaults.all());
    let budgets = Budgets::of(&Policy::default(), &[])?;
    let webhook = WebhookTable::read()?;
    if args.json {
        let settings = lines.iter().map(|line| {
            json!({
                "option": format!("--{}", line.default.option),
                "values": values(line.default),
                "from": line.default.origin,
                "commands": line.commands,
            })
        });
        let settings: Vec<_> = settings.collect();
        let (file, exists) = defaults.file().unzip();
        let file = file.map(|path| path.display().to_string());
        let webhook = webhook.map(|table| {
            json!({ "host": table.host(), "secret_file": table.secret_file().display().to_string() })
        });
        let value = json!({
            "version": 1,
            "file": file,
            "file_exists": exists,
            "settings": settings,
            "budgets": budgets.set.iter().map(budget_json).collect::<Vec<Value>>(),
            "webhook": webhook,
        });
        writeln!(out, "{value:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    match defaults.file() {
        Some((path, true)) => writeln!(out, "file: {}", path.display())?,
        Some((path, false)) => writeln!(out, "file: {} (does not exist)", path.display())?,
        None => writeln!(out, "file: none")?,
    }
    if lines.is_empty() {
        writeln!(out, "no defaults are set; see `endstop config --help`")?;
    } else {
        write_settings(lines, out)?;
    }
    for account in budgets.set.iter() {
        writeln!(out, "budget: {}", in_full(account))?;
    }
    if let Some(table) = webhook {
        let (host, secret) = (table.host(), table.secret_file().display().to_string());
        writeln!(out, "webhook: {host} (secret in {secret})")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_settings(lines: Vec<SettingLine<'_>>, out: &mut dyn Write) -> Result<(), CliError> {
    let mut table = output::table(&["option", "value", "from", "commands"], &[]);
    for line in lines {
        let commands = line.commands.join(", ");
        table.add_row([
            format!("--{}", line.default.option),
            values(line.default).join(", "),
            line.default.origin.clone(),
            if commands.is_empty() { "all".to_owned() } else { commands },
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn lines(all: &[DefaultValue]) -> Vec<SettingLine<'_>> {
    let mut lines: Vec<SettingLine<'_>> = Vec::new();
    for default in all {
        let same = lines.iter_mut().find(|line| {
            let it = line.default;
            (&it.option, &it.values, &it.origin)
                == (&default.option, &default.values, &default.origin)
        });
        match same {
            Some(line) => line.commands.push(&default.command),
            None => lines.push(SettingLine { default, commands: vec![&default.command] }),
        }
    }
    for line in &mut lines {
        line.commands.retain(|command| !command.is_empty());
    }
    lines
}

/// The values, with keys replaced.
fn values(default: &DefaultValue) -> Vec<String> {
    let option = OsString::from(format!("--{}", default.option));
    let shown = default.values.iter().map(|value| {
        // Together, because the name of an option tells that its value is a secret.
        let words = redact::command(&[option.clone(), value.into()]);
        words.last().cloned().unwrap_or_default()
    });
    shown.collect()
}
