//! A certificate authority of vramgate's own: kept in a Secret that replicas share, with leaves that live in memory alone.
//!
//! Three certificates can be trusted at a time. The *signer* signs leaves. When two thirds of its life are over, the *next* one
//! is made and published beside it; it signs only once everybody trusts it. The signer before stays trusted as long as it is
//! valid, so a replica that has not yet seen the change is still believed. Who holds the Secret's key can pose as vramgate, and
//! as nobody else: registrations alone trust it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use time::OffsetDateTime;

use super::certs::{CertsError, check_host};
use super::tls;

/// Clocks of other machines may be behind.
const BEHIND: Duration = Duration::from_hours(1);

/// How long what is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// A CA.
    pub ca: Duration,
    /// A leaf.
    pub leaf: Duration,
    /// For how long a CA is published before it signs.
    pub overlap: Duration,
}

impl Default for Lives {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            ca: DAY.saturating_mul(365),
            leaf: DAY.saturating_mul(7),
            overlap: Duration::from_mins(10),
        }
    }
}

/// A Secret that holds no usable authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A key is missing.
    #[error("{0} is missing; take all data out of the Secret, and a new CA is made")]
    Missing(&'static str),
    /// A key holds something else.
    #[error("{field}: {reason}; take all data out of the Secret, and a new CA is made")]
    Broken {
        /// Its name.
        field: &'static str,
        /// Why, with nothing of its content.
        reason: String,
    },
    /// A host is no host.
    #[error(transparent)]
    Host(#[from] CertsError),
    /// Signing failed.
    #[error("cannot make a certificate: {0}")]
    Signing(#[from] rcgen::Error),
}

/// A CA certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    cert: String,
    key: String,
    expires: SystemTime,
}

/// What the Secret holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    signer: Pair,
    /// With when it was made.
    next: Option<(Pair, SystemTime)>,
    previous: Vec<String>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never a key.
        f.debug_struct("Authority")
            .field("expires", &self.signer.expires)
            .field("next", &self.next.is_some())
            .field("previous", &self.previous.len())
            .finish()
    }
}

/// A certificate for the server.
#[derive(Clone)]
pub struct Leaf {
    /// The certificate, PEM.
    pub cert_pem: String,
    /// Its key (PKCS #8, PEM).
    pub key_pem: String,
    /// When two thirds of its life are over.
    pub renew: SystemTime,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    ///
    /// Where no key can be made.
    pub fn new(lives: &Lives, now: SystemTime) -> Result<Self, AuthorityError> {
        Ok(Self {
            signer: Pair::new(lives, now)?,
            next: None,
            previous: Vec::new(),
        })
    }

    /// Reads a Secret's data. `None` where it is empty, as it is when it was just created.
    ///
    /// # Errors
    ///
    /// Where it holds something, and no authority.
    pub fn from_data(data: &BTreeMap<String, Vec<u8>>) -> Result<Option<Self>, AuthorityError> {
        if data.values().all(Vec::is_empty) {
            return Ok(None);
        }
        let signer = Pair::read(data, "signer.crt", "signer.key")?;
        let next = if data.contains_key("next.crt") {
            let since = text(data, "next.since")?;
            let seconds = since.trim().parse().map_err(|_| AuthorityError::Broken {
                field: "next.since",
                reason: "is no number of seconds since 1970".to_owned(),
            })?;
            let since = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
            let since = since.ok_or(AuthorityError::Broken {
                field: "next.since",
                reason: "is no time".to_owned(),
            })?;
            Some((Pair::read(data, "next.crt", "next.key")?, since))
        } else {
            None
        };
        let previous = match data.get("previous.crt") {
            None => Vec::new(),
            Some(_) => split(&text(data, "previous.crt")?)?,
        };
        Ok(Some(Self {
            signer,
            next,
            previous,
        }))
    }

    /// The Secret's data. `ca.crt` is [`Self::bundle`], for people and other programs.
    #[must_use]
    pub fn to_data(&self) -> BTreeMap<String, Vec<u8>> {
        let mut data = vec![
            ("ca.crt", self.bundle()),
            ("signer.crt", self.signer.cert.clone()),
            ("signer.key", self.signer.key.clone()),
        ];
        if let Some((next, since)) = &self.next {
            let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
            data.push(("next.crt", next.cert.clone()));
            data.push(("next.key", next.key.clone()));
            data.push(("next.since", since.as_secs().to_string()));
        }
        if !self.previous.is_empty() {
            data.push(("previous.crt", self.previous.concat()));
        }
        data.into_iter()
            .map(|(key, text)| (key.to_owned(), text.into_bytes()))
            .collect()
    }

    /// Everything that is to be trusted: the signer, the next one and those before, in PEM.
    #[must_use]
    pub fn bundle(&self) -> String {
        let mut bundle = self.signer.cert.clone();
        if let Some((next, _)) = &self.next {
            bundle.push_str(&next.cert);
        }
        bundle.push_str(&self.previous.concat());
        bundle
    }

    /// What the Secret should hold from now on, if something else. `published` says that whoever calls trusts the whole
    /// bundle by now: before that, the next one must not sign.
    ///
    /// # Errors
    ///
    /// Where no key can be made.
    pub fn step(
        &self,
        lives: &Lives,
        published: bool,
        now: SystemTime,
    ) -> Result<Option<Self>, AuthorityError> {
        let mut after = self.clone();
        after
            .previous
            .retain(|pem| expiry(pem).is_some_and(|expires| expires > now));
        match &self.next {
            None if now + lives.ca / 3 >= self.signer.expires => {
                after.next = Some((Pair::new(lives, now)?, now));
            }
            // A signer that has expired is believed by nobody, so there is nothing to wait for.
            Some((next, since))
                if published && (now >= *since + lives.overlap || self.signer.expires <= now) =>
            {
                if self.signer.expires > now {
                    after.previous.push(self.signer.cert.clone());
                }
                after.signer = next.clone();
                after.next = None;
            }
            _ => {}
        }
        Ok((after != *self).then_some(after))
    }

    /// Whether both have the same signer.
    #[must_use]
    pub fn signs_as(&self, other: &Self) -> bool {
        self.signer == other.signer
    }

    /// A leaf for these names and addresses, which never outlives its signer.
    ///
    /// # Errors
    ///
    /// Where a host is none, or signing fails.
    pub fn leaf(&self, hosts: &[String], lives: &Lives, now: SystemTime) -> Result<Leaf, AuthorityError> {
        for host in hosts {
            check_host(host)?;
        }
        let expires = (now + lives.leaf).min(self.signer.expires);
        let mut leaf = CertificateParams::new(hosts.to_vec())?;
        leaf.distinguished_name.push(DnType::CommonName, "vramgate");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        (leaf.not_before, leaf.not_after) = (OffsetDateTime::from(now - BEHIND), expires.into());
        let key = KeyPair::generate()?;
        let issuer = Issuer::new(ca_params(), KeyPair::from_pem(&self.signer.key)?);
        let life = expires.duration_since(now).unwrap_or_default();
        Ok(Leaf {
            cert_pem: leaf.signed_by(&key, &issuer)?.pem(),
            key_pem: key.serialize_pem(),
            renew: now + life * 2 / 3,
        })
    }
}

/// The parameters that all CAs have in common: an issuer is made again from them and its key.
fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "vramgate CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl Pair {
    fn new(lives: &Lives, now: SystemTime) -> Result<Self, AuthorityError> {
        let mut params = ca_params();
        let expires = now + lives.ca;
        (params.not_before, params.not_after) = (OffsetDateTime::from(now - BEHIND), expires.into());
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?.pem();
        // To the second, as it is read back.
        let expires = expiry(&cert).unwrap_or(expires);
        Ok(Self {
            cert,
            key: key.serialize_pem(),
            expires,
        })
    }

    fn read(
        data: &BTreeMap<String, Vec<u8>>,
        cert_field: &'static str,
        key_field: &'static str,
    ) -> Result<Self, AuthorityError> {
        let broken = |field, reason: &str| AuthorityError::Broken {
            field,
            reason: reason.to_owned(),
        };
        let (cert, key) = (text(data, cert_field)?, text(data, key_field)?);
        let expires = expiry(&cert).ok_or_else(|| broken(cert_field, "is no certificate in PEM"))?;
        let pair =
            KeyPair::from_pem(&key).map_err(|_| broken(key_field, "is no private key in PEM (PKCS #8)"))?;
        let der = CertificateDer::from_pem_slice(cert.as_bytes())
            .map_err(|_| broken(cert_field, "is no certificate in PEM"))?;
        let public = pair.public_key_raw();
        if !der.windows(public.len()).any(|part| part == public) {
            return Err(broken(key_field, "does not belong to the certificate"));
        }
        Ok(Self { cert, key, expires })
    }
}

fn text(data: &BTreeMap<String, Vec<u8>>, field: &'static str) -> Result<String, AuthorityError> {
    let bytes = data.get(field).ok_or(AuthorityError::Missing(field))?;
    String::from_utf8(bytes.clone()).map_err(|_| AuthorityError::Broken {
        field,
        reason: "is not text".to_owned(),
    })
}

/// When the first certificate of a PEM text ends.
fn expiry(pem: &str) -> Option<SystemTime> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    tls::not_after(&der)
}

/// The certificates of a PEM text, one by one.
fn split(pem: &str) -> Result<Vec<String>, AuthorityError> {
    const END: &str = "-----END CERTIFICATE-----";
    let mut all = Vec::new();
    for part in pem.split_inclusive(END) {
        if part.trim().is_empty() {
            continue;
        }
        let one = format!("{}\n", part.trim());
        if expiry(&one).is_none() {
            return Err(AuthorityError::Broken {
                field: "previous.crt",
                reason: "holds something that is no certificate in PEM".to_owned(),
            });
        }
        all.push(one);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
