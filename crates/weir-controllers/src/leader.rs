//! Who of several copies does the work? The one that holds a Lease.
//!
//! The rules are those of client-go: a copy that sees the holder renew waits for a whole term from
//! the moment it *saw* that, by its own clock, so that clocks of machines need not agree. A holder
//! that cannot renew in time stops before anybody else may begin.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::PostParams;
use std::sync::Arc;
use tokio::time::{Instant, sleep};

use crate::clock::Clock;

/// How long a term lasts without being renewed. client-go's default.
const TERM: Duration = Duration::from_secs(15);

/// How long a holder tries to renew before it gives up. client-go's default.
const RENEW_LIMIT: Duration = Duration::from_secs(10);

/// How long between two tries. client-go's default.
const RETRY: Duration = Duration::from_secs(2);

/// A copy's part in the election.
pub struct Election {
    api: Api<Lease>,
    name: String,
    identity: String,
    clock: Arc<dyn Clock>,
    seen: Option<(String, Option<MicroTime>, Instant)>,
}

enum Ballot {
    Won,
    HeldBy(String),
}

impl Election {
    /// Takes part under a name that no other copy has.
    #[must_use]
    pub fn new(
        client: kube::Client,
        namespace: &str,
        name: &str,
        identity: String,
        clock: Arc<dyn Clock>,
    ) -> Election {
        let api = Api::namespaced(client, namespace);
        Election {
            api,
            name: name.to_owned(),
            identity,
            clock,
            seen: None,
        }
    }

    /// Waits until this copy holds the Lease.
    pub async fn win(&mut self) {
        let mut told = None;
        loop {
            match self.vote().await {
                Ok(Ballot::Won) => return,
                Ok(Ballot::HeldBy(holder)) => {
                    if told.as_ref() != Some(&holder) {
                        tracing::info!(lease = self.name, holder, "waiting for the lease");
                        told = Some(holder);
                    }
                }
                Err(error) => {
                    let error = crate::pool::line(&error);
                    tracing::warn!(lease = self.name, error, "failed to ask for the lease");
                }
            }
            sleep(RETRY).await;
        }
    }

    /// Renews the Lease until that fails for too long or somebody else holds it.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(RETRY).await;
            match self.vote().await {
                Ok(Ballot::Won) => renewed = Instant::now(),
                Ok(Ballot::HeldBy(_)) => return,
                Err(error) => {
                    let error = crate::pool::line(&error);
                    tracing::warn!(lease = self.name, error, "failed to renew the lease");
                }
            }
            if renewed.elapsed() > RENEW_LIMIT {
                return;
            }
        }
    }

    async fn vote(&mut self) -> Result<Ballot, kube::Error> {
        let now = MicroTime(self.clock.now());
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            return self.claim(None, now).await;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder == self.identity || holder.is_empty() {
            return self.claim(Some(lease), now).await;
        }
        let unchanged = self
            .seen
            .as_ref()
            .filter(|(who, when, _)| *who == holder && *when == spec.renew_time)
            .map(|(_, _, since)| *since);
        let since = unchanged.unwrap_or_else(Instant::now);
        self.seen = Some((holder.clone(), spec.renew_time.clone(), since));
        let term = spec
            .lease_duration_seconds
            .and_then(|s| u64::try_from(s).ok());
        if since.elapsed() < term.map_or(TERM, Duration::from_secs) {
            return Ok(Ballot::HeldBy(holder));
        }
        self.claim(Some(lease), now).await
    }

    /// Writes our name into the Lease, against the version that was read: of two, one wins.
    async fn claim(&self, lease: Option<Lease>, now: MicroTime) -> Result<Ballot, kube::Error> {
        let old = lease
            .as_ref()
            .and_then(|lease| lease.spec.clone())
            .unwrap_or_default();
        let ours = old.holder_identity.as_deref() == Some(&self.identity);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(TERM.as_secs() as i32),
            acquire_time: if ours {
                old.acquire_time
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(
                old.lease_transitions.unwrap_or(0) + i32::from(!ours && lease.is_some()),
            ),
            ..LeaseSpec::default()
        };
        let written = match lease {
            Some(lease) => {
                let next = Lease {
                    spec: Some(spec),
                    ..lease
                };
                self.api
                    .replace(&self.name, &PostParams::default(), &next)
                    .await
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                };
                let next = Lease {
                    metadata,
                    spec: Some(spec),
                };
                self.api.create(&PostParams::default(), &next).await
            }
        };
        match written {
            Ok(_) => Ok(Ballot::Won),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(Ballot::HeldBy("another copy".to_owned()))
            }
            Err(error) => Err(error),
        }
    }
}
