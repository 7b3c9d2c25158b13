//! What a MachineHealthCheck asks of the owner of a Machine, and what it is told.
//!
//! The check marks Machines and leaves it to their owner to replace them. Of a pool that is us, as
//! core does nothing about it.
//!
//! # Source
//! Cluster API v1.14.2, core/reconcilers/machinehealthcheck/machinehealthcheck_controller.go
//! (`patchUnhealthyTargets`) and util/collections/machine_filters.go
//! (`IsUnhealthyAndOwnerRemediated`); the reasons are in api/core/v1beta2/machineset_types.go.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use weir_api::capi::Machine;
use weir_api::contract::{annotation, condition, reason};
use weir_core::Plan;
use weir_core::observed::Unhealthy;
use weir_core::plan::WaitingOn;

use super::observe::Scene;
use crate::context::Ctx;

/// Who owns the condition that is written here.
const MANAGER: &str = "weir-remediation";

/// Returns what a check found, if this Machine is for its owner to replace.
pub(super) fn finding(machine: &Machine) -> Option<Unhealthy> {
    if machine
        .annotations()
        .contains_key(annotation::SKIP_REMEDIATION)
    {
        return None;
    }
    let check = refused(machine, condition::HEALTH_CHECK_SUCCEEDED)?;
    refused(machine, condition::OWNER_REMEDIATED)?;
    let why = if check.message.is_empty() {
        check.reason.clone()
    } else {
        check.message.clone()
    };
    Some(Unhealthy {
        since: check.last_transition_time.0,
        why: format!("its health check failed: {why}"),
    })
}

fn refused<'m>(machine: &'m Machine, kind: &str) -> Option<&'m Condition> {
    condition_of(machine, kind).filter(|condition| condition.status == "False")
}

fn condition_of<'m>(machine: &'m Machine, kind: &str) -> Option<&'m Condition> {
    let conditions = machine.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .find(|condition| condition.type_ == kind)
}

/// Tells on each Machine that a check found unhealthy what becomes of it.
pub(super) async fn answer(scene: &Scene, plan: &Plan, ctx: &Ctx) -> Result<(), kube::Error> {
    let api: Api<Machine> = Api::namespaced(ctx.kube.clone(), &scene.key.namespace);
    for (id, objects) in &scene.objects {
        let Some(machine) = objects.machine.as_deref().filter(|m| finding(m).is_some()) else {
            continue;
        };
        let going = plan.removes(id) || machine.metadata.deletion_timestamp.is_some();
        let (reason, message) = words(plan, going);
        let told = condition_of(machine, condition::OWNER_REMEDIATED);
        if told.is_some_and(|told| told.reason == reason && told.message == message) {
            continue;
        }
        let patch = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {"name": machine.name_any(), "uid": machine.uid()},
            "status": {"conditions": [condition(reason, message, told, ctx.clock.now())]},
        });
        let params = PatchParams::apply(MANAGER).force();
        match api
            .patch_status(&machine.name_any(), &params, &Patch::Apply(&patch))
            .await
        {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The reason, and what is waited for.
fn words(plan: &Plan, going: bool) -> (&'static str, String) {
    if going {
        let message = "the machine is drained and deleted, and the pool makes another".to_owned();
        return (reason::REMEDIATION_MACHINE_DELETING, message);
    }
    let holds = |on: &WaitingOn| {
        matches!(
            on,
            WaitingOn::Brake { .. }
                | WaitingOn::Floor { .. }
                | WaitingOn::NeverServed { .. }
                | WaitingOn::NoBudget { .. }
                | WaitingOn::Refused { .. }
                | WaitingOn::Unread { .. }
        )
    };
    let wait = plan.waits.iter().find(|wait| holds(&wait.on));
    let message = wait.map_or_else(|| "it waits for its turn".to_owned(), ToString::to_string);
    (reason::REMEDIATION_DEFERRED, message)
}

fn condition(
    reason: &str,
    message: String,
    before: Option<&Condition>,
    now: Timestamp,
) -> Condition {
    let since = before.map_or(Time(now), |before| before.last_transition_time.clone());
    Condition {
        type_: condition::OWNER_REMEDIATED.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation: before.and_then(|before| before.observed_generation),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn machine(conditions: &[(&str, &str)], annotations: &Value) -> Machine {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status)| {
                json!({"type": kind, "status": status, "reason": "NodeUnhealthy",
                    "message": "Ready is Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "pool-0", "annotations": annotations},
            "spec": {"clusterName": "cluster", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "", "kind": "", "name": "pool-0"}},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_machine_that_is_left_to_its_owner_is_replaced() {
        let (check, owner) = (
            condition::HEALTH_CHECK_SUCCEEDED,
            condition::OWNER_REMEDIATED,
        );
        let none = json!({});
        let rows = [
            (
                "both",
                vec![(check, "False"), (owner, "False")],
                &none,
                true,
            ),
            ("a finding alone", vec![(check, "False")], &none, false),
            (
                "healthy again",
                vec![(check, "True"), (owner, "False")],
                &none,
                false,
            ),
            (
                "not known",
                vec![(check, "Unknown"), (owner, "False")],
                &none,
                false,
            ),
            (
                "done before",
                vec![(check, "False"), (owner, "True")],
                &none,
                false,
            ),
            (
                "to be skipped",
                vec![(check, "False"), (owner, "False")],
                &json!({annotation::SKIP_REMEDIATION: ""}),
                false,
            ),
        ];
        for (name, conditions, annotations, expected) in rows {
            let found = finding(&machine(&conditions, annotations));
            assert_eq!(found.is_some(), expected, "{name}");
        }
        let both = machine(&[(check, "False"), (owner, "False")], &none);
        let found = finding(&both).map(|found| (found.since.to_string(), found.why));
        let since = "2026-01-01T00:00:00Z".to_owned();
        let why = "its health check failed: Ready is Unknown".to_owned();
        assert_eq!(found, Some((since, why)));
    }
}
