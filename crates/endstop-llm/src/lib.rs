//! The model APIs on the wire: requests, replies, streams, usage, errors and stop responses.
