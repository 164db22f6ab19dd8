//! `vramgate certs`: certificates for development.

use super::args::Certs;
use super::{Failure, output};
use crate::server::certs;

/// Makes and writes them.
pub(super) fn run(args: &Certs) -> Result<(), Failure> {
    let pems =
        certs::make(&args.hosts, args.days).map_err(|error| Failure::new(format!("--host: {error}")))?;
    let written = pems.write(&args.out, args.force).map_err(|error| match error {
        certs::CertsError::Exists(path) => Failure::new(format!(
            "{}: exists already; nothing was written; give --force to replace it",
            path.display()
        )),
        other => Failure::new(format!("--out {}: {other}", args.out.display())),
    })?;
    let mut text = String::new();
    for path in written {
        text.push_str(&path.display().to_string());
        text.push('\n');
    }
    output::print(&text)
}
