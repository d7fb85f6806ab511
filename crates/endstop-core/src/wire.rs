//! Everything that is stored or sent, by version. Golden files hold each form in place.

pub mod v1;
