//! The framing of what a client sends, followed strictly.
