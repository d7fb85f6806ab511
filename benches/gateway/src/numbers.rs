//! Times that were measured, and their statistics.

/// The value below which this part of all lie; 0 of nothing.
pub fn quantile(values: &mut [u64], part: f64) -> u64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index of a list, rounded"
    )]
    let index = (last as f64 * part).round() as usize;
    values.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
