//! The agent loop: a driver of the decision core that calls a model, runs tools and stops for the right reason.
