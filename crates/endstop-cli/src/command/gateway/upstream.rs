//! The value of `--upstream`.

use endstop_gateway::{Upstreams, UpstreamsError};

use super::script;

/// What to write instead.
pub(super) const HINT: &str = "write an address such as `https://api.openai.com/v1`";
/// The APIs by their names, and the variable that each stands for.
const APIS: [(&str, &str); 3] = [
    ("openai", "OPENAI_BASE_URL"),
    ("anthropic", "ANTHROPIC_BASE_URL"),
    ("gemini", "GOOGLE_GEMINI_BASE_URL"),
];

/// Where calls go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Upstream {
    /// The model that is built in, with this script.
    Sim(String),
    /// One address for every API.
    All(String),
    /// Addresses by the environment variable that they stand for.
    Each(Vec<(&'static str, String)>),
}

/// Whether it is the model that is built in.
pub(in crate::command) fn is_sim(text: &str) -> bool {
    text == "sim" || text.starts_with("sim:")
}

impl Upstream {
    /// Reads it. No error shows what may be a password.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "sim" {
            return Ok(Self::Sim(String::new()));
        }
        if let Some(name) = text.strip_prefix("sim:") {
            script(name)?;
            return Ok(Self::Sim(name.to_owned()));
        }
        let is_list = !text.starts_with("http") && text.contains('=');
        if !is_list {
            return address(text).map(|()| Self::All(text.to_owned()));
        }
        let mut each: Vec<(&'static str, String)> = Vec::new();
        for part in text.split(',') {
            let (variable, base) = one_of_a_list(part)?;
            if each.iter().any(|(known, _)| *known == variable) {
                let name = part.split('=').next().unwrap_or_default().trim();
                return Err(format!("`{name}` is given twice"));
            }
            each.push((variable, base));
        }
        Ok(Self::Each(each))
    }
}

/// `NAME=URL`.
fn one_of_a_list(part: &str) -> Result<(&'static str, String), String> {
    let (name, base) =
        part.split_once('=').ok_or_else(|| format!("`{}` is not NAME=URL", shown(part)))?;
    let (name, base) = (name.trim(), base.trim());
    let known = APIS.iter().find(|(known, _)| *known == name);
    let (_, variable) =
        known.ok_or_else(|| format!("`{name}` is none of openai, anthropic, gemini"))?;
    if base.is_empty() {
        return Err(format!("`{name}=` has no address; is a variable unset?"));
    }
    if is_sim(base) {
        return Err("`sim` stands alone: it is the upstream of every API".to_owned());
    }
    address(base).map_err(|error| format!("{name}: {error}"))?;
    Ok((variable, base.to_owned()))
}

/// Whether an address can be used; the error explains the written text.
fn address(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("empty address; is a variable unset?".to_owned());
    }
    let text_shown = shown(text);
    if !text.starts_with("http://") && !text.starts_with("https://") {
        let is_near = text.len() <= 5 && text.to_lowercase().starts_with("si");
        let or_sim = if is_near { "; did you mean `sim`?" } else { "" };
        return Err(format!("`{text_shown}` does not begin with http:// or https://{or_sim}"));
    }
    match Upstreams::all(text) {
        Ok(_) if !text.contains(['?', '#']) => Ok(()),
        Ok(_) => Err(format!("`{text_shown}`: it may not have a query or a fragment")),
        Err(UpstreamsError::Address { why, .. }) => Err(format!("`{text_shown}`: {why}")),
    }
}

/// An address without what may be a password.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("\u{2026}@{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
