//! Responses: stub.

use http::StatusCode;

use super::{Asked, Dialect, Edits, ErrorKind, OwnAnswer, Seen, StreamReader, Unreadable};
use crate::sse::SseEvent;
use crate::stop::StopText;

/// The dialect.
#[derive(Debug)]
pub(super) struct Responses;

struct Reader(Seen);

impl StreamReader for Reader {
    fn event(&mut self, _: &SseEvent<'_>) -> super::EventSeen {
        super::EventSeen::default()
    }

    fn is_between_blocks(&self) -> bool {
        true
    }

    fn seen(&self) -> &Seen {
        &self.0
    }

    fn end(&mut self, _: &StopText) -> Vec<u8> {
        Vec::new()
    }
}

impl Dialect for Responses {
    fn read(&self, _: &str, _: &[u8]) -> Result<Asked, Unreadable> {
        Ok(Asked::default())
    }

    fn edit(&self, body: &[u8], _: &Edits<'_>) -> Result<Vec<u8>, Unreadable> {
        Ok(body.to_vec())
    }

    fn answer(&self, _: &[u8]) -> Result<Seen, Unreadable> {
        Ok(Seen::default())
    }

    fn stream(&self, _: &Asked) -> Box<dyn StreamReader> {
        Box::new(Reader(Seen::default()))
    }

    fn stop(&self, asked: &Asked, stop: &StopText) -> OwnAnswer {
        let _ = asked;
        self.error(StatusCode::OK, ErrorKind::Stopped, &stop.text)
    }

    fn error(&self, status: StatusCode, _: ErrorKind, message: &str) -> OwnAnswer {
        OwnAnswer { status, content_type: "application/json", body: message.as_bytes().to_vec() }
    }
}
