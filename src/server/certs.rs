//! Development certificates: a certificate authority that signs one leaf and is then forgotten.
//!
//! The authority's key is never kept, so it cannot sign anything else. In production certificates come from
//! cert-manager or the platform.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

/// Names that a certificate has where none are given.
pub const DEFAULT_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Longest life of a certificate in days: clients refuse more.
const MOST_DAYS: u32 = 825;

/// A chain of trust in PEM.
#[derive(Clone)]
pub struct Pems {
    /// Certificate of the authority: `caBundle` of the registrations.
    pub ca_pem: String,
    /// Certificate of the server.
    pub cert_pem: String,
    /// Private key of the server (PKCS #8).
    pub key_pem: String,
}

/// Certificates that cannot be made or written.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// A host is neither a DNS name nor an IP address.
    #[error("host {host:?} is neither a DNS name nor an IP address: {reason}")]
    Host {
        /// As given.
        host: String,
        /// Why.
        reason: String,
    },
    /// Out of range.
    #[error("{0} days is not a life for a certificate: choose from 1 to {MOST_DAYS}")]
    Days(u32),
    /// Signing failed.
    #[error("cannot make a certificate: {0}")]
    Signing(#[from] rcgen::Error),
    /// Files are there already.
    #[error("{} already exists: nothing was written; remove it or ask to overwrite", .0.display())]
    Exists(PathBuf),
    /// The file system refuses.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Makes an authority and a server certificate for `hosts` (DNS names and IP addresses; empty means
/// [`DEFAULT_HOSTS`]) that live for `days` from now.
pub fn make(hosts: &[String], days: u32) -> Result<Pems, CertsError> {
    if !(1..=MOST_DAYS).contains(&days) {
        return Err(CertsError::Days(days));
    }
    let hosts: Vec<String> = if hosts.is_empty() {
        DEFAULT_HOSTS.map(str::to_owned).to_vec()
    } else {
        hosts.to_vec()
    };
    for host in &hosts {
        check_host(host)?;
    }
    let now = OffsetDateTime::now_utc();
    // Clocks of other machines may be behind.
    let not_before = now - Duration::hours(1);
    let not_after = now + Duration::days(i64::from(days));

    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "vramgate development CA");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (authority.not_before, authority.not_after) = (not_before, not_after);
    let authority_key = KeyPair::generate()?;
    let ca_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut leaf = CertificateParams::new(hosts)?;
    leaf.distinguished_name.push(DnType::CommonName, "vramgate");
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    (leaf.not_before, leaf.not_after) = (not_before, not_after);
    let key = KeyPair::generate()?;
    let cert_pem = leaf.signed_by(&key, &issuer)?.pem();
    Ok(Pems {
        ca_pem,
        cert_pem,
        key_pem: key.serialize_pem(),
    })
}

impl Pems {
    /// Writes `ca.crt`, `tls.crt` and `tls.key` (the key readable by its owner alone) into `dir`, which is made where
    /// it does not exist. Without `overwrite` nothing is written if one of them is there.
    pub fn write(&self, dir: &Path, overwrite: bool) -> Result<Vec<PathBuf>, CertsError> {
        let files = [
            ("ca.crt", &self.ca_pem, 0o644),
            ("tls.crt", &self.cert_pem, 0o644),
            ("tls.key", &self.key_pem, 0o600),
        ];
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |source| CertsError::Write { path, source }
        };
        std::fs::create_dir_all(dir).map_err(fault(dir))?;
        let mut written = Vec::new();
        if !overwrite
            && let Some(path) = files
                .iter()
                .map(|file| dir.join(file.0))
                .find(|path| path.exists())
        {
            return Err(CertsError::Exists(path));
        }
        for (name, pem, mode) in files {
            let path = dir.join(name);
            // A new file each time: an old one may be readable by others, and may be open elsewhere.
            let new = dir.join(format!(".{name}.new"));
            if new.exists() {
                std::fs::remove_file(&new).map_err(fault(&new))?;
            }
            create(&new, mode)
                .and_then(|mut file| file.write_all(pem.as_bytes()))
                .map_err(fault(&new))?;
            std::fs::rename(&new, &path).map_err(fault(&path))?;
            written.push(path);
        }
        Ok(written)
    }
}

fn create(path: &Path, mode: u32) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}

pub(super) fn check_host(host: &str) -> Result<(), CertsError> {
    if host.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    rustls_pki_types::DnsName::try_from(name)
        .map(|_| ())
        .map_err(|error| CertsError::Host {
            host: host.to_owned(),
            reason: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn refuses_what_is_no_host_or_no_life() {
        for host in ["", "https://localhost", "a b", "-x."] {
            assert!(
                matches!(make(&[host.to_owned()], 1), Err(CertsError::Host { .. })),
                "{host:?}"
            );
        }
        for days in [0, 100_000] {
            assert!(matches!(make(&[], days), Err(CertsError::Days(_))));
        }
        make(
            &[
                "*.example.org".to_owned(),
                "10.0.0.1".to_owned(),
                "vramgate.gpu.svc".to_owned(),
            ],
            1,
        )
        .unwrap();
    }

    #[test]
    fn keys_are_private_and_never_overwritten_unasked() {
        let dir = std::env::temp_dir().join(format!("vramgate-certs-{}", std::process::id()));
        let first = make(&[], 1).unwrap();
        let written = first.write(&dir, false).unwrap();
        assert_eq!(written.len(), 3);
        let mode = std::fs::metadata(dir.join("tls.key"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = make(&[], 1).unwrap();
        assert!(matches!(second.write(&dir, false), Err(CertsError::Exists(_))));
        assert_eq!(
            std::fs::read_to_string(dir.join("tls.key")).unwrap(),
            first.key_pem
        );
        std::fs::set_permissions(dir.join("tls.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
        second.write(&dir, true).unwrap();
        assert_eq!(
            std::fs::read_to_string(dir.join("tls.key")).unwrap(),
            second.key_pem
        );
        let mode = std::fs::metadata(dir.join("tls.key"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
