//! Anthropic messages.

use http::StatusCode;

use crate::parts::counted_tokens;
use crate::response_outline::ResponseOutline;
use crate::{
    CallRequest, CallResponse, CountRequest, Dialect, Edits, ErrorKind, ReadError, StopText,
    StreamReader, WrittenResponse,
};

mod edit;
mod reply;
mod request;
mod stop;
mod stream;

#[cfg(test)]
pub(crate) use request::KEYS;

/// The API.
#[derive(Debug)]
pub(crate) struct Messages;

impl Dialect for Messages {
    fn read(&self, _: &str, body: &[u8]) -> Result<CallRequest, ReadError> {
        request::read(body)
    }

    fn edit(&self, body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, ReadError> {
        edit::edit(body, edits)
    }

    fn count_request(&self, path: &str, body: &[u8]) -> Option<CountRequest> {
        edit::to_count(path, body)
    }

    fn counted_tokens(&self, body: &[u8]) -> Option<u64> {
        counted_tokens(body)
    }

    fn may_remove_tools(&self, body: &[u8]) -> bool {
        request::may_remove_tools(body)
    }

    fn keep_calls(&self, body: &[u8], keep: usize) -> Result<Vec<u8>, ReadError> {
        edit::keep_calls(body, keep)
    }

    fn answer(&self, body: &[u8]) -> Result<CallResponse, ReadError> {
        stream::read(body)
    }

    fn stream(&self, request: &CallRequest) -> Box<dyn StreamReader> {
        Box::new(stream::MessagesStream::new(ResponseOutline::to(request)))
    }

    fn stop(&self, request: &CallRequest, stop: &StopText) -> WrittenResponse {
        stop::stop(&ResponseOutline::to(request), stop)
    }

    fn error(&self, status: StatusCode, kind: ErrorKind, message: &str) -> WrittenResponse {
        stop::error(status, kind, message)
    }
}

#[cfg(test)]
mod tests;
