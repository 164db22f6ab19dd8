//! Keys of the API server: a certificate authority, a serving certificate for loopback, and the key of service accounts.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Writes `ca.crt`, `apiserver.crt`, `apiserver.key` and `service-accounts.{key,pub}` into `directory`.
pub fn write(directory: &Path) {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.distinguished_name
        .push(DnType::CommonName, "e2e control plane");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca, ca_key);

    let key = KeyPair::generate().unwrap();
    let mut leaf = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    leaf.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let certificate = leaf.signed_by(&key, &issuer).unwrap();

    let service_accounts = KeyPair::generate().unwrap();
    for (name, text) in [
        ("ca.crt", ca_certificate.pem()),
        ("apiserver.crt", certificate.pem()),
        ("apiserver.key", key.serialize_pem()),
        ("service-accounts.key", service_accounts.serialize_pem()),
        ("service-accounts.pub", service_accounts.public_key_pem()),
    ] {
        fs::write(directory.join(name), text).unwrap();
    }
}
