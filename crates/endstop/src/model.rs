//! Models: what answers a request, streaming first.
