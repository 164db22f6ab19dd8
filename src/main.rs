//! The binary: one TLS provider for the process, then the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Fails only where a provider is installed already, and then that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    vramgate::cli::run()
}
