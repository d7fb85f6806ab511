//! A gateway that stops any agent program, and that cannot be overspent.
//!
//! A driver of the decision core: HTTP requests and answers become events, directives become HTTP. It decides
//! nothing by itself. A call goes through these stages, each a module of its own:
//!
//! 1. [`server`]: a connection, bounded, its framing checked.
//! 2. [`route`]: which run it belongs to, which upstream it is for, which interface it speaks.
//! 3. [`endstop_llm`]: the request read: model, output cap, tools, results, conversation.
//! 4. [`call`]: asked of the run; reserved; sent; its answer passed on while it is read; settled.
//! 5. `stop`: what a client is answered whose run has stopped.

mod body;
mod call;
pub mod config;
mod control;
mod decode;
mod limits;
mod route;
mod run;
mod server;
mod stop;
mod upstream;
mod upstream_config;

mod gateway;

pub use config::{
    Bounds, Config, Key, PauseLimit, Runs, StopWith, Unnamed, UpstreamKeys, Upstreams,
    UpstreamsError,
};
pub use gateway::{Gateway, StartError};
pub use run::Counts;
