//! Everything that is stored or sent, by version. Old versions are read for ever; each has golden files.

pub mod v1;
