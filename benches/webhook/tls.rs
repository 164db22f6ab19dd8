//! One self-signed certificate for all webhooks of a run, and clients that trust it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::Outcome;

/// Both providers could be linked, so rustls is told which one to take.
pub(crate) fn install_provider() {
    // An error says that it was installed before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Certificate and key as files, as servers read them.
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The certificate's text, which is its own authority.
    pub(crate) pem: String,
}

impl Identity {
    /// A certificate for loopback addresses, written below `folder`.
    pub(crate) fn create(folder: &Path) -> Outcome<Self> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        let identity = Self {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            pem: made.cert.pem(),
        };
        std::fs::write(&identity.certificate, &identity.pem)?;
        std::fs::write(&identity.key, made.signing_key.serialize_pem())?;
        Ok(identity)
    }
}

/// What a server offers: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
pub(crate) fn server(certificate: &Path, key: &Path) -> Outcome<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A client that speaks HTTP/1.1 alone and trusts the certificates in `pem`.
pub(crate) fn client(pem: &str) -> Outcome<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
