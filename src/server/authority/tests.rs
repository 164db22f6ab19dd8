use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::{RootCertStore, pki_types::ServerName, pki_types::UnixTime};

use super::*;

const LIVES: Lives = Lives {
    ca: Duration::from_hours(900),
    leaf: Duration::from_hours(90),
    overlap: Duration::from_hours(1),
};

fn hosts() -> Vec<String> {
    vec!["vramgate.gpu.svc".to_owned()]
}

fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

/// A whole second, as certificates count.
fn start() -> SystemTime {
    UNIX_EPOCH + hours(500_000)
}

/// Whether a client that trusts `bundle` believes `leaf` at that time.
fn is_trusted(bundle: &str, leaf: &Leaf, at: SystemTime) -> bool {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
            .build()
            .unwrap();
    let der = CertificateDer::from_pem_slice(leaf.cert_pem.as_bytes()).unwrap();
    let at = UnixTime::since_unix_epoch(at.duration_since(UNIX_EPOCH).unwrap());
    let name = ServerName::try_from("vramgate.gpu.svc").unwrap();
    verifier.verify_server_cert(&der, &[], &name, &[], at).is_ok()
}

#[test]
fn what_is_written_reads_back_and_the_empty_secret_is_none() {
    assert!(Authority::from_data(&BTreeMap::new()).unwrap().is_none());
    let first = Authority::new(&LIVES, start()).unwrap();
    let with_next = first.step(&LIVES, true, start() + hours(600)).unwrap().unwrap();
    let promoted = with_next
        .step(&LIVES, true, start() + hours(602))
        .unwrap()
        .unwrap();
    for authority in [first, with_next, promoted] {
        let data = authority.to_data();
        assert_eq!(data["ca.crt"], authority.bundle().into_bytes());
        assert!(!authority.bundle().contains("PRIVATE"));
        assert!(!format!("{authority:?}").contains("PRIVATE"));
        assert!(Authority::from_data(&data).unwrap().unwrap() == authority);
    }
}

/// At every moment, each leaf that a replica may still serve is trusted by every bundle that an API server may still have.
#[test]
fn through_two_changes_of_the_ca_every_leaf_in_use_is_trusted() {
    let mut now = start();
    let mut authority = Authority::new(&LIVES, now).unwrap();
    let mut published = authority.bundle();
    // A replica that looks at the Secret late, and one that does at once.
    let mut leaves = [(); 2].map(|()| authority.leaf(&hosts(), &LIVES, now).unwrap());
    let mut signers = [authority.clone(), authority.clone()];
    let mut changes = 0;
    for hour in 0..1_600_u64 {
        now = start() + hours(hour);
        let is_published = published == authority.bundle();
        if let Some(after) = authority.step(&LIVES, is_published, now).unwrap() {
            changes += usize::from(!after.signs_as(&authority));
            authority = after;
        }
        for (number, every) in [(0, 1), (1, 5)] {
            if hour % every == 0 && (!signers[number].signs_as(&authority) || now >= leaves[number].renew) {
                leaves[number] = authority.leaf(&hosts(), &LIVES, now).unwrap();
                signers[number] = authority.clone();
            }
        }
        for leaf in &leaves {
            assert!(
                is_trusted(&published, leaf, now),
                "in hour {hour} by the old bundle"
            );
            assert!(
                is_trusted(&authority.bundle(), leaf, now),
                "in hour {hour} by the new bundle"
            );
        }
        // The leader publishes now and then.
        if hour % 3 == 0 {
            published = authority.bundle();
        }
    }
    assert_eq!(changes, 2);
}

#[test]
fn the_next_one_does_not_sign_before_it_is_published() {
    let authority = Authority::new(&LIVES, start()).unwrap();
    assert!(
        authority
            .step(&LIVES, true, start() + hours(599))
            .unwrap()
            .is_none()
    );
    let at = start() + hours(600);
    let with_next = authority.step(&LIVES, true, at).unwrap().unwrap();
    assert!(with_next.signs_as(&authority));
    for (published, later) in [(false, hours(200)), (true, Duration::from_mins(59))] {
        assert!(with_next.step(&LIVES, published, at + later).unwrap().is_none());
    }
    let promoted = with_next.step(&LIVES, true, at + hours(1)).unwrap().unwrap();
    assert!(!promoted.signs_as(&authority));
    assert_eq!(promoted.previous.len(), 1);
    let later = promoted
        .step(&LIVES, true, start() + hours(901))
        .unwrap()
        .unwrap();
    assert!(later.previous.is_empty(), "what has expired is forgotten");
}

#[test]
fn after_a_long_sleep_the_next_one_signs_as_soon_as_it_is_published() {
    let authority = Authority::new(&LIVES, start()).unwrap();
    let at = start() + hours(2_000);
    let with_next = authority.step(&LIVES, true, at).unwrap().unwrap();
    assert!(with_next.step(&LIVES, false, at).unwrap().is_none());
    let promoted = with_next.step(&LIVES, true, at).unwrap().unwrap();
    let leaf = promoted.leaf(&hosts(), &LIVES, at).unwrap();
    assert!(is_trusted(&promoted.bundle(), &leaf, at));
    assert!(promoted.previous.is_empty());
}

#[test]
fn a_leaf_is_renewed_at_two_thirds_and_never_outlives_its_signer() {
    let authority = Authority::new(&LIVES, start()).unwrap();
    let leaf = authority.leaf(&hosts(), &LIVES, start()).unwrap();
    assert_eq!(leaf.renew, start() + hours(60));
    let late = authority.leaf(&hosts(), &LIVES, start() + hours(870)).unwrap();
    assert_eq!(expiry(&late.cert_pem), Some(start() + hours(900)));
    assert_eq!(late.renew, start() + hours(890));
    assert!(authority.leaf(&["a b".to_owned()], &LIVES, start()).is_err());
}

#[test]
fn a_broken_secret_is_told_by_its_field_and_nothing_of_its_content() {
    let good = Authority::new(&LIVES, start()).unwrap().to_data();
    let other = Authority::new(&LIVES, start()).unwrap().to_data();
    let with = |field: &str, bytes: &[u8]| {
        let mut data = good.clone();
        data.insert(field.to_owned(), bytes.to_vec());
        Authority::from_data(&data).map(|_| ()).unwrap_err().to_string()
    };
    for (field, bytes) in [
        ("signer.crt", b"secret words".as_slice()),
        ("signer.key", b"secret words"),
        ("signer.key", &[0xff, 0xfe]),
        ("signer.key", &other["signer.key"]),
        ("previous.crt", b"secret words"),
    ] {
        let text = with(field, bytes);
        assert!(
            text.starts_with(field) && text.contains("a new CA is made"),
            "{text}"
        );
        assert!(!text.contains("secret words"), "{text}");
    }
    let mut data = good.clone();
    data.remove("signer.key");
    let text = Authority::from_data(&data).map(|_| ()).unwrap_err().to_string();
    assert!(text.starts_with("signer.key is missing"), "{text}");
    let mut data = good.clone();
    data.insert("next.crt".to_owned(), good["signer.crt"].clone());
    let text = Authority::from_data(&data).map(|_| ()).unwrap_err().to_string();
    assert!(text.starts_with("next.since is missing"), "{text}");
}
