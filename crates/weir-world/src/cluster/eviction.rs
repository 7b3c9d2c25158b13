//! May this pod be evicted now?
//!
//! # Source
//! kubernetes `pkg/registry/core/pod/storage/eviction.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::collect::DeleteOptions;
use super::fields;
use super::kinds::resource;
use super::refusal::Refusal;
use super::selector::Selector;
use super::server::{ApiServer, DryRun, Target};
use crate::tally::Fault;

/// What the server suggests while a budget has not been computed yet.
const RETRY_AFTER_SECONDS: u32 = 10;

impl ApiServer {
    /// Evicts a pod: deletes it if the disruption budget that covers it allows that.
    ///
    /// # Errors
    /// 429 with the budget's name when it does not; 500 when two budgets cover the pod.
    pub fn evict(
        &mut self,
        now: Timestamp,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Refusal> {
        let target = Target::new(resource::PODS, namespace, name);
        let pod = self.stored(&target)?.object;
        if !can_ignore_budgets(&pod) {
            let budgets: Vec<Target> = self.budgets_of(&pod);
            match budgets.as_slice() {
                [] => {}
                [budget] => self.spend(now, &pod, budget, options).inspect_err(|_| {
                    let line = format!("eviction of {target} refused by {budget}");
                    self.tally.count(Fault::EvictionRefused);
                    self.say(now, line);
                })?,
                _ => {
                    let message = "This pod has more than one PodDisruptionBudget, which the \
                                   eviction subresource does not support.";
                    return Err(Refusal::internal(message));
                }
            }
        }
        self.delete(now, &target, options).map(drop)
    }

    fn budgets_of(&self, pod: &Value) -> Vec<Target> {
        self.list_in(resource::BUDGETS, fields::namespace(pod))
            .filter(|budget| covers(budget, pod))
            .map(|budget| Target::of(resource::BUDGETS, budget))
            .collect()
    }

    fn spend(
        &mut self,
        now: Timestamp,
        pod: &Value,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<(), Refusal> {
        let budget = self.stored(target)?.object;
        let name = &target.id.name;
        let count = |field: &str| fields::number(&budget, &format!("/status/{field}")).unwrap_or(0);
        let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
        let always = fields::text(&budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if !fields::is_ready(pod) && (always || (healthy >= desired && desired > 0)) {
            return Ok(());
        }
        let generation = fields::number(&budget, "/metadata/generation").unwrap_or(0);
        if count("observedGeneration") < generation {
            let cause =
                format!("The disruption budget {name} is still being processed by the server.");
            return Err(Refusal::disruption(cause, Some(RETRY_AFTER_SECONDS)));
        }
        let allowed = count("disruptionsAllowed");
        if allowed <= 0 {
            let cause = format!(
                "The disruption budget {name} needs {desired} healthy pods and has {healthy} \
                 currently"
            );
            return Err(Refusal::disruption(cause, None));
        }
        if options.dry_run == DryRun::No {
            let pod_name = fields::name(pod).replace('~', "~0").replace('/', "~1");
            self.edit(now, target, "eviction", |budget| {
                fields::set(budget, "/status/disruptionsAllowed", json!(allowed - 1));
                let place = format!("/status/disruptedPods/{pod_name}");
                fields::set(budget, &place, json!(fields::stamp(now)));
            })?;
        }
        Ok(())
    }
}

/// Returns whether a disruption budget covers a pod of its namespace. An empty one covers none.
pub(super) fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = fields::at(budget, "/spec/selector").and_then(Selector::from_object);
    selector.is_some_and(|selector| selector.matches(pod))
}

fn can_ignore_budgets(pod: &Value) -> bool {
    let phase = fields::text(pod, "/status/phase");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || fields::is_deleting(pod)
}
