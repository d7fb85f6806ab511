//! A scripted model server for tests and demos of LLM agents.
