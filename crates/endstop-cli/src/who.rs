//! The one who acts, for the records.
//!
//! A separate file because commands, keys and budgets record it.

/// Who acts, if a request does not say.
const SOMEONE: &str = "unknown";

/// Who acts: the name that a request has, unless it is blank.
pub(crate) fn acting(by: Option<&str>) -> &str {
    by.filter(|by| !by.trim().is_empty()).unwrap_or(SOMEONE)
}

/// Who acts: the user's name, this machine and this process.
#[cfg(unix)]
pub(crate) fn who() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).ok().flatten();
    let name = user.map_or_else(|| nix::unistd::Uid::current().to_string(), |user| user.name);
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    format!("{name}@{host} (endstop, process {})", std::process::id())
}

/// Who acts: the user's name and this process.
#[cfg(not(unix))]
pub(crate) fn who() -> String {
    let name = std::env::var("USERNAME").unwrap_or_else(|_| "unknown".to_owned());
    format!("{name} (endstop, process {})", std::process::id())
}

#[cfg(test)]
mod tests;
