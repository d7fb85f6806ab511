//! The plan of a login, from the program's own files. Nothing else of these files is kept: the rest are secrets.
//!
//! A separate file because two programs have plans, and each hides its name elsewhere.

use serde_json::Value;

use crate::limits::MAX_PLAN_NAME;

/// The claim of ChatGPT's identity token that has the plan.
const CHATGPT_CLAIM: &str = "https://api.openai.com/auth";

/// The plan in `.credentials.json` of Claude Code.
pub(super) fn of_claude(login: &Value) -> Option<String> {
    name(login.get("claudeAiOauth")?.get("subscriptionType")?)
}

/// The plan in `auth.json` of Codex.
pub(super) fn of_chatgpt(login: &Value) -> Option<String> {
    let token = login.get("tokens")?.get("id_token")?.as_str()?;
    let claims: Value = serde_json::from_slice(&decoded(token.split('.').nth(1)?)?).ok()?;
    name(claims.get(CHATGPT_CLAIM)?.get("chatgpt_plan_type")?)
}

/// A name, and nothing that could be a secret.
fn name(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    let is_name = !text.is_empty() && text.len() <= MAX_PLAN_NAME && text.chars().all(is_plain);
    is_name.then(|| text.to_owned())
}

/// Base64 as URLs have it, without padding.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0_u32, 0_u32);
    for sign in text.bytes() {
        let value = match sign {
            b'A'..=b'Z' => sign - b'A',
            b'a'..=b'z' => sign - b'a' + 26,
            b'0'..=b'9' => sign - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
