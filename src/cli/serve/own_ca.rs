//! A certificate authority of vramgate's own: each replica signs its certificate by it, and the leader has the registrations
//! trust it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};

use super::live::in_force;
use crate::cli::Failure;
use crate::cluster::Leadership;
use crate::cluster::own_secret::{keep_registrations, read_secret, write_secret};
use crate::ledger::Ledger;
use crate::server::authority::{Authority, Leaf, Lives};
use crate::server::registration::{Gate, Target, webhook_config};
use crate::server::{Certificates, Readiness};

/// What `/readyz` waits for.
pub(super) const CERTIFIED: &str = "certificate";

/// How often Secret and registrations are looked at.
const EVERY: Duration = Duration::from_secs(5);
/// The same until there is a certificate.
const AT_FIRST: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(in crate::cli) struct OwnCa {
    /// Keep a certificate authority in this Secret of vramgate's own namespace, and serve certificates that it signs; the
    /// Secret must be there, and may be empty
    #[arg(
        long = "own-ca",
        id = "own_ca",
        value_name = "SECRET",
        env = "VRAMGATE_OWN_CA",
        conflicts_with_all = ["tls_cert", "tls_key"],
        requires = "keep_registrations"
    )]
    pub(super) secret: Option<String>,
    /// Have the registrations ask this Service, or this base URL, and trust that authority; they must be there, and may be
    /// empty
    #[arg(
        long,
        value_name = "TARGET",
        env = "VRAMGATE_KEEP_REGISTRATIONS",
        requires = "own_ca"
    )]
    pub(super) keep_registrations: Option<String>,
    /// Namespace that those registrations exempt. Repeat it for several
    #[arg(
        long = "exempt-namespace",
        value_name = "NAME",
        requires = "keep_registrations"
    )]
    pub(super) exempt_namespaces: Vec<String>,
    /// What becomes of a pod that asks for a GPU while no replica answers
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value = "fail",
        requires = "keep_registrations"
    )]
    pub(super) failure_policy: FailurePolicy,
}

/// As in a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum FailurePolicy {
    /// It is refused.
    Fail,
    /// It passes.
    Ignore,
}

/// The part of a replica that cares for its certificate.
pub(super) struct Keeper {
    secret: String,
    target: Target,
    hosts: Vec<String>,
    exempt: Vec<String>,
    failure_policy: FailurePolicy,
    lives: Lives,
    served: Option<(Authority, Leaf)>,
    told: Option<String>,
}

/// What it works with.
pub(super) struct Tools {
    pub(super) client: kube::Client,
    pub(super) certificates: Arc<Certificates>,
    pub(super) readiness: Readiness,
    pub(super) leadership: Leadership,
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

impl Keeper {
    /// What the options ask for, if they do.
    pub(super) fn of(args: &OwnCa) -> Result<Option<Self>, Failure> {
        let (Some(secret), Some(text)) = (&args.secret, &args.keep_registrations) else {
            return Ok(None);
        };
        let target = if text.starts_with("https://") {
            Target::url(text)
        } else {
            Target::service(text)
        };
        let target = target.map_err(|error| Failure::new(format!("--keep-registrations: {error}")))?;
        Ok(Some(Self {
            secret: secret.clone(),
            hosts: target.hosts(),
            target,
            exempt: args.exempt_namespaces.clone(),
            failure_policy: args.failure_policy,
            lives: Lives::default(),
            served: None,
            told: None,
        }))
    }

    /// Goes on for good.
    pub(super) async fn run(mut self, tools: Tools) {
        loop {
            match self.round(&tools).await {
                Ok(()) => self.told = None,
                Err(why) => {
                    if self.served.is_none() {
                        tools.readiness.unmet(CERTIFIED, why.clone());
                    }
                    if self.told.as_ref() != Some(&why) {
                        tracing::error!("certificate authority: {why}");
                        self.told = Some(why);
                    }
                }
            }
            tokio::time::sleep(if self.served.is_some() { EVERY } else { AT_FIRST }).await;
        }
    }

    async fn round(&mut self, tools: &Tools) -> Result<(), String> {
        let now = SystemTime::now();
        let held = read_secret(&tools.client, &self.secret).await?;
        let read =
            Authority::from_data(&held.data).map_err(|error| format!("Secret {}: {error}", self.secret))?;
        let Some(authority) = read else {
            let made = Authority::new(&self.lives, now).map_err(|error| error.to_string())?;
            // Of several replicas one writes first; all of them read what it wrote.
            if write_secret(&tools.client, &held, made.to_data()).await? {
                tracing::info!(secret = self.secret, "made a certificate authority");
            }
            return Ok(());
        };
        self.serve(&authority, tools, now)?;
        if !(tools.leadership.is_leader() && tools.readiness.is_ready()) {
            return Ok(());
        }
        let bundle = authority.bundle();
        if keep_registrations(&tools.client, &self.registrations(&bundle, tools)).await? {
            tracing::info!("the registrations are up to date");
            // The API server has not read them yet.
            return Ok(());
        }
        let after = authority.step(&self.lives, true, now);
        if let Some(after) = after.map_err(|error| error.to_string())?
            && write_secret(&tools.client, &held, after.to_data()).await?
        {
            tracing::info!(?after, "the certificate authority has changed");
        }
        Ok(())
    }

    /// Serves a leaf of the authority's signer.
    fn serve(&mut self, authority: &Authority, tools: &Tools, now: SystemTime) -> Result<(), String> {
        let is_current = self
            .served
            .as_ref()
            .is_some_and(|(signer, leaf)| signer.signs_as(authority) && now < leaf.renew);
        if is_current {
            return Ok(());
        }
        let leaf = authority
            .leaf(&self.hosts, &self.lives, now)
            .map_err(|error| error.to_string())?;
        tools
            .certificates
            .replace(&leaf.cert_pem, &leaf.key_pem)
            .map_err(|error| error.to_string())?;
        tracing::info!("a certificate of our own authority is served from now on");
        self.served = Some((authority.clone(), leaf));
        tools.readiness.met(CERTIFIED);
        Ok(())
    }

    fn registrations(&self, bundle: &str, tools: &Tools) -> Vec<serde_json::Value> {
        let gate = Gate::of(&in_force(&tools.ledger));
        let mut all = webhook_config(&self.target, Some(bundle), &gate, &self.exempt);
        for entry in all
            .iter_mut()
            .filter_map(|registration| registration["webhooks"].as_array_mut())
            .flatten()
        {
            if self.failure_policy == FailurePolicy::Ignore {
                entry["failurePolicy"] = "Ignore".into();
            }
            if entry.get("namespaceSelector").is_none() {
                // Said outright, so that one from before is taken away.
                entry["namespaceSelector"] = serde_json::json!({});
            }
        }
        all
    }
}
