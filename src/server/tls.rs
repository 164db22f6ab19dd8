//! The certificate that is served: from files that are looked at again, or made at start.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncReadExt as _;

use super::certs::{self, CertsError};
use super::metrics::Metrics;

mod expiry;

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{what} is not PEM of the expected kind: {reason}")]
    Pem {
        /// Which one.
        what: String,
        /// Why.
        reason: String,
    },
    /// Key and certificate do not belong together, or are of a kind that cannot be served.
    #[error("certificate and key cannot be served: {0}")]
    Unusable(#[from] rustls::Error),
    /// None could be made.
    #[error(transparent)]
    Make(#[from] CertsError),
}

struct Served {
    key: Arc<CertifiedKey>,
    expires: Option<SystemTime>,
    /// The files' content, to see whether they have changed.
    content: (Vec<u8>, Vec<u8>),
}

/// The certificate in use. Connections that are open keep theirs.
pub struct Certificates {
    current: ArcSwap<Served>,
    files: Option<(PathBuf, PathBuf)>,
    provider: Arc<CryptoProvider>,
}

/// Bytes of a PEM file: a chain has some ten thousand.
const MOST_BYTES: u64 = 1 << 20;

fn bounded(bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    if bytes.len() as u64 > MOST_BYTES {
        return Err(std::io::Error::other(
            "larger than 1 MiB, so it is no certificate or key",
        ));
    }
    Ok(bytes)
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Certificates {
    /// A certificate (chain, leaf first) and its key from PEM files.
    pub fn from_files(cert: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        let read = |path: &PathBuf| {
            let read = || {
                let mut bytes = Vec::new();
                std::fs::File::open(path)?
                    .take(MOST_BYTES + 1)
                    .read_to_end(&mut bytes)?;
                bounded(bytes)
            };
            read().map_err(|source| CertificateError::Read {
                path: path.clone(),
                source,
            })
        };
        let content = (read(&cert)?, read(&key)?);
        Self::new(content, Some((cert, key)))
    }

    /// A certificate from PEM texts, which never changes.
    pub fn from_pem(cert: &str, key: &str) -> Result<Self, CertificateError> {
        Self::new((cert.as_bytes().to_vec(), key.as_bytes().to_vec()), None)
    }

    /// A certificate of our own making for `hosts`, and the PEM of the authority that callers have to trust.
    pub fn self_signed(hosts: &[String], days: u32) -> Result<(Self, String), CertificateError> {
        let pems = certs::make(hosts, days)?;
        Ok((Self::from_pem(&pems.cert_pem, &pems.key_pem)?, pems.ca_pem))
    }

    fn new(content: (Vec<u8>, Vec<u8>), files: Option<(PathBuf, PathBuf)>) -> Result<Self, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let served = serve(content, &provider)?;
        Ok(Self {
            current: ArcSwap::from_pointee(served),
            files,
            provider,
        })
    }

    /// Serves another certificate (PEM, leaf first) and its key from now on.
    ///
    /// # Errors
    ///
    /// Where they cannot be served; the one in use stays.
    pub fn replace(&self, cert: &str, key: &str) -> Result<(), CertificateError> {
        let content = (cert.as_bytes().to_vec(), key.as_bytes().to_vec());
        self.current.store(Arc::new(serve(content, &self.provider)?));
        Ok(())
    }

    /// When the served leaf stops being valid; `None` where its date cannot be read.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.current.load().expires
    }

    /// Seconds until then, negative afterwards.
    #[must_use]
    pub fn expires_in_seconds(&self) -> Option<f64> {
        let expires = self.expires()?;
        Some(match expires.duration_since(SystemTime::now()) {
            Ok(left) => left.as_secs_f64(),
            Err(past) => past.duration().as_secs_f64().copysign(-1.0),
        })
    }

    /// Looks at the files once. `true` where another certificate is served from now on. On an error (half written
    /// files too: a key that does not belong to the certificate) the one in use stays.
    pub async fn reload(&self) -> Result<bool, CertificateError> {
        let Some((cert, key)) = &self.files else {
            return Ok(false);
        };
        let read = async |path: &PathBuf| {
            let read = async {
                let mut bytes = Vec::new();
                let file = tokio::fs::File::open(path).await?;
                file.take(MOST_BYTES + 1).read_to_end(&mut bytes).await?;
                bounded(bytes)
            };
            read.await.map_err(|source| CertificateError::Read {
                path: path.clone(),
                source,
            })
        };
        let content = (read(cert).await?, read(key).await?);
        if content == self.current.load().content {
            return Ok(false);
        }
        let served = serve(content, &self.provider)?;
        self.current.store(Arc::new(served));
        Ok(true)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().key))
    }
}

/// When a certificate (DER) stops being valid; `None` where its date cannot be read.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    expiry::not_after(certificate).map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))
}

fn serve(content: (Vec<u8>, Vec<u8>), provider: &CryptoProvider) -> Result<Served, CertificateError> {
    let pem = |what: &str, reason: String| CertificateError::Pem {
        what: what.to_owned(),
        reason,
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&content.0)
        .collect::<Result<_, _>>()
        .map_err(|error| pem("the certificate", error.to_string()))?;
    let Some(leaf) = chain.first() else {
        return Err(pem("the certificate", "it has no CERTIFICATE section".to_owned()));
    };
    let expires = not_after(leaf);
    // The reason names no part of the key.
    let key = PrivateKeyDer::from_pem_slice(&content.1).map_err(|error| pem("the key", error.to_string()))?;
    let key = CertifiedKey::from_der(chain, key, provider)?;
    Ok(Served {
        key: Arc::new(key),
        expires,
        content,
    })
}

/// TLS 1.2 and 1.3 on ring, HTTP/2 and HTTP/1.1 by ALPN.
pub(super) fn server_config(certificates: &Arc<Certificates>) -> Result<ServerConfig, rustls::Error> {
    let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(certificates) as _;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&certificates.provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Looks at the files again and again. The content is compared, not the time: a Secret volume changes by swapping a
/// symbolic link above the files.
pub(super) async fn poll(certificates: Arc<Certificates>, every: Duration, metrics: Arc<Metrics>) {
    let mut ticks = tokio::time::interval(every.max(Duration::from_millis(10)));
    loop {
        ticks.tick().await;
        match certificates.reload().await {
            Ok(false) => {}
            Ok(true) => tracing::info!("another certificate is served from now on"),
            Err(error) => {
                metrics.reload_failed();
                tracing::error!(%error, "the certificate files cannot be used; the last good one is served");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn half_written_files_leave_the_last_good_certificate() {
        let dir = std::env::temp_dir().join(format!("vramgate-tls-{}", std::process::id()));
        let (first, second) = (certs::make(&[], 10).unwrap(), certs::make(&[], 20).unwrap());
        first.write(&dir, false).unwrap();
        let (cert, key) = (dir.join("tls.crt"), dir.join("tls.key"));
        let certificates = Certificates::from_files(cert.clone(), key.clone()).unwrap();
        let expires = certificates.expires().unwrap();
        assert!(!certificates.reload().await.unwrap());
        std::fs::write(&cert, &second.cert_pem).unwrap();
        assert!(matches!(
            certificates.reload().await,
            Err(CertificateError::Unusable(_))
        ));
        std::fs::write(&cert, "").unwrap();
        assert!(matches!(
            certificates.reload().await,
            Err(CertificateError::Pem { .. })
        ));
        std::fs::remove_file(&cert).unwrap();
        assert!(matches!(
            certificates.reload().await,
            Err(CertificateError::Read { .. })
        ));
        assert_eq!(certificates.expires(), Some(expires));
        second.write(&dir, true).unwrap();
        assert!(certificates.reload().await.unwrap());
        assert!(certificates.expires().unwrap() > expires);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_date_of_the_leaf_is_read() {
        let (certificates, _) = Certificates::self_signed(&[], 30).unwrap();
        let left = certificates.expires_in_seconds().unwrap();
        assert!((29.9 * 86_400.0..=30.0 * 86_400.0).contains(&left), "{left}");
    }
}
