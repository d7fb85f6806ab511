//! Prices, usage shapes and their oracle. A separate file because it holds the parts together.

mod oracle;
mod prices;
mod property;
mod shape;
