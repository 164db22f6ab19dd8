//! `vramgate webhook-config`: both registrations, ready for `kubectl apply -f -`.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::args::{Output, WebhookConfig};
use super::{Failure, input, output, policies};
use crate::server::registration::{Gate, Target, webhook_config};
use crate::snapshot::Snapshot;

/// Prints the registrations.
pub(super) fn run(args: &WebhookConfig) -> Result<(), Failure> {
    let target = target(args)?;
    let policies = policies::load(args.policy_dir.as_deref(), &Snapshot::default())?;
    let gate = Gate::of(&policies);
    for namespace in &args.exempt_namespaces {
        if Target::service(&format!("{namespace}/x")).is_err() {
            return Err(Failure::new(format!(
                "--exempt-namespace: {namespace:?} is no name of a namespace"
            )));
        }
    }
    let registrations = webhook_config(&target, Some(&authority(args)?), &gate, &args.exempt_namespaces);
    match args.output {
        Output::Text => output::print(&yaml(&registrations)?),
        Output::Json => {
            output::print_json(&json!({"apiVersion": "v1", "kind": "List", "items": registrations}))
        }
    }
}

fn target(args: &WebhookConfig) -> Result<Target, Failure> {
    match (&args.url, &args.service) {
        (Some(url), _) => Target::url(url).map_err(|error| Failure::new(format!("--url: {error}"))),
        (None, Some(service)) => {
            Target::service(service).map_err(|error| Failure::new(format!("--service: {error}")))
        }
        (None, None) => Err(Failure::new("give --url URL or --service NAMESPACE/NAME")),
    }
}

/// The PEM text of `--ca`, once it is seen to hold certificates and no key.
fn authority(args: &WebhookConfig) -> Result<String, Failure> {
    let shown = args.ca.display();
    let refuse = |why: &str| Failure::new(format!("--ca {shown}: {why}; give the PEM file ca.crt"));
    let bytes = input::read_file(&args.ca, input::MAX_INPUT_BYTES)?;
    let certificates = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse(&error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("is not text"))?;
    if text.contains("PRIVATE KEY-----") {
        return Err(refuse("holds a private key, which must not be published"));
    }
    if certificates.is_empty() {
        return Err(refuse("holds no certificate"));
    }
    Ok(text)
}

fn yaml(documents: &[Value]) -> Result<String, Failure> {
    let mut text = String::new();
    for document in documents {
        let body = serde_saphyr::to_string(document)
            .map_err(|error| Failure::new(format!("the registration cannot be written as YAML: {error}")))?;
        text.push_str("---\n");
        text.push_str(body.trim_end());
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Limits, objects};

    #[test]
    fn the_yaml_reads_back_as_what_was_written() {
        let target = Target::Url("https://127.0.0.1:8443".to_owned());
        let registrations = webhook_config(
            &target,
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n"),
            &Gate::default(),
            &[],
        );
        let text = yaml(&registrations)
            .map_err(|failure| failure.to_string())
            .unwrap();
        let read: Vec<_> = objects(text.as_bytes(), "out", Limits::INPUT)
            .unwrap()
            .into_iter()
            .map(|object| object.value)
            .collect();
        assert_eq!(read, registrations);
    }
}
