//! Changing single values of a JSON object and nothing else of its text.
