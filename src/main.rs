//! The binary: one allocator and one TLS provider for the process, then the command line.

use std::process::ExitCode;

/// A review is decoded into some hundreds of small strings, on several threads: measured, this takes a quarter off the CPU
/// of a review (docs/dependencies.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Fails only where a provider is installed already, and then that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    vramgate::cli::run()
}
