//! OpenAI chat completions, and compatible servers.

use http::StatusCode;

use crate::response_outline::ResponseOutline;
use crate::{
    CallRequest, CallResponse, Dialect, Edits, ErrorKind, ReadError, StopText, StreamReader,
    WrittenResponse,
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
pub(crate) struct Chat;

impl Dialect for Chat {
    fn read(&self, _: &str, body: &[u8]) -> Result<CallRequest, ReadError> {
        request::read(body)
    }

    fn countable_messages<'b>(&self, body: &'b [u8]) -> Option<&'b str> {
        request::messages(body)
    }

    fn edit(&self, body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, ReadError> {
        edit::edit(body, edits)
    }

    fn keep_calls(&self, body: &[u8], keep: usize) -> Result<Vec<u8>, ReadError> {
        edit::keep_calls(body, keep)
    }

    fn answer(&self, body: &[u8]) -> Result<CallResponse, ReadError> {
        stream::read(body)
    }

    fn stream(&self, request: &CallRequest) -> Box<dyn StreamReader> {
        Box::new(stream::ChatStream::new(ResponseOutline::to(request)))
    }

    fn stop(&self, request: &CallRequest, stop: &StopText) -> WrittenResponse {
        stop::stop(&ResponseOutline::to(request), stop)
    }

    fn error(&self, status: StatusCode, kind: ErrorKind, message: &str) -> WrittenResponse {
        stop::error(status, kind, message)
    }
}

pub(crate) use request::required_by_word;
pub(crate) use stop::error as openai_error;

#[cfg(test)]
mod tests;
