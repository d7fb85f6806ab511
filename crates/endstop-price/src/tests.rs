//! Prices, usage shapes and their oracle. A file of its own because it holds the parts together.

mod oracle;
mod prices;
mod property;
mod shape;
