//! What a model call costs: price data, usage objects, exact money.
