//! vLLM.

mod config_file;
pub mod options;
pub mod parse;
mod rewrite;
pub mod value;
