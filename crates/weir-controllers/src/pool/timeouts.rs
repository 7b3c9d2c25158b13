//! Carries the timeouts of a MachinePool's template to its Machines, which core does not do.
//!
//! Without them a budget that allows no eviction holds a drain for ever. Each is a field of its
//! own: whoever sets one on a Machine keeps it, and what the template no longer has is taken back.
//!
//! # Source
//! Cluster API v1.14.2, core/reconcilers/machinepool/machinepool_controller_phases.go: the Machines
//! of a pool are applied without `spec.deletion`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use weir_api::capi::{Machine, MachineDeletion};

use super::observe::Scene;
use crate::context::Ctx;

/// Who owns the fields that are written here.
const MANAGER: &str = "weir-deletion-timeouts";

/// Writes the timeouts to the Machines that have others.
pub(super) async fn carry(scene: &Scene, ctx: &Ctx) -> Result<(), kube::Error> {
    let Some(machine_pool) = &scene.machine_pool else {
        return Ok(());
    };
    let wanted = machine_pool.spec.template.spec.deletion.as_ref();
    let wanted = fields(wanted.unwrap_or(&MachineDeletion::default()));
    let api: Api<Machine> = Api::namespaced(ctx.kube.clone(), &scene.key.namespace);
    let machines = scene
        .objects
        .values()
        .filter_map(|own| own.machine.as_ref());
    for machine in machines {
        let Some(patch) = patch(machine, &wanted) else {
            continue;
        };
        let params = PatchParams::apply(MANAGER);
        match api
            .patch(&machine.name_any(), &params, &Patch::Apply(&patch))
            .await
        {
            Ok(_) => {}
            // Gone, or taken by somebody a moment ago: the next turn sees which.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

type Fields = BTreeMap<String, i64>;

/// Returns what has to be applied for a Machine to have these timeouts, as far as nobody else says.
fn patch(machine: &Machine, wanted: &Fields) -> Option<Value> {
    let has = fields(
        machine
            .spec
            .deletion
            .as_ref()
            .unwrap_or(&MachineDeletion::default()),
    );
    let owners = machine.managed_fields();
    let is_ours = |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(MANAGER);
    let (ours, theirs): (Vec<_>, Vec<_>) = owners.iter().partition(is_ours);
    let mut fields = wanted.clone();
    fields.retain(|name, _| !owns(&theirs, name));
    let is_there = fields
        .iter()
        .all(|(name, value)| has.get(name) == Some(value));
    let is_all = has
        .keys()
        .all(|name| fields.contains_key(name) || !owns(&ours, name));
    (!is_there || !is_all).then(|| {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            // The uid keeps a Machine that is gone from being made anew.
            "metadata": {"name": machine.name_any(), "uid": machine.uid()},
            "spec": {"deletion": fields},
        })
    })
}

fn owns(entries: &[&ManagedFieldsEntry], name: &str) -> bool {
    let path = format!("/f:spec/f:deletion/f:{name}");
    let fields = entries.iter().filter_map(|entry| entry.fields_v1.as_ref());
    fields
        .into_iter()
        .any(|fields| fields.0.pointer(&path).is_some())
}

fn fields(deletion: &MachineDeletion) -> Fields {
    let fields = serde_json::to_value(deletion).and_then(serde_json::from_value);
    fields.expect("three optional numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(deletion: &Value, owners: &Value) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "pool-0", "uid": "u", "managedFields": owners},
            "spec": {"clusterName": "cluster", "bootstrap": {}, "deletion": deletion,
                "infrastructureRef": {"apiGroup": "", "kind": "", "name": "pool-0"}},
        }))
        .unwrap()
    }

    fn owner(manager: &str, names: &[&str]) -> Value {
        let fields = names.iter().map(|name| (format!("f:{name}"), json!({})));
        json!({"manager": manager, "operation": "Apply",
            "fieldsV1": {"f:spec": {"f:deletion": Value::Object(fields.collect())}}})
    }

    #[test]
    fn a_machine_gets_what_it_lacks_and_keeps_what_somebody_else_set() {
        let (drain, volume) = ("nodeDrainTimeoutSeconds", "nodeVolumeDetachTimeoutSeconds");
        let none = json!({});
        let rows = [
            (
                "it lacks all",
                none.clone(),
                json!([]),
                json!({drain: 60}),
                Some(json!({drain: 60})),
            ),
            (
                "it has them",
                json!({drain: 60}),
                json!([owner(MANAGER, &[drain])]),
                json!({drain: 60}),
                None,
            ),
            (
                "another value",
                json!({drain: 60}),
                json!([owner(MANAGER, &[drain])]),
                json!({drain: 0}),
                Some(json!({drain: 0})),
            ),
            (
                "one more",
                json!({drain: 60}),
                json!([owner(MANAGER, &[drain])]),
                json!({drain: 60, volume: 5}),
                Some(json!({drain: 60, volume: 5})),
            ),
            (
                "no longer in the template",
                json!({drain: 60}),
                json!([owner(MANAGER, &[drain])]),
                none.clone(),
                Some(none.clone()),
            ),
            (
                "set by a person",
                json!({drain: 9}),
                json!([owner("kubectl-edit", &[drain])]),
                json!({drain: 60}),
                None,
            ),
            (
                "one set by a person, one lacking",
                json!({drain: 9}),
                json!([owner("kubectl-edit", &[drain])]),
                json!({drain: 60, volume: 5}),
                Some(json!({volume: 5})),
            ),
            (
                "nothing wanted",
                none.clone(),
                json!([]),
                none.clone(),
                None,
            ),
        ];
        for (name, has, owners, wanted, expected) in rows {
            let wanted: Fields = serde_json::from_value(wanted).unwrap();
            let patch = patch(&machine(&has, &owners), &wanted);
            let applied = patch.map(|patch| patch["spec"]["deletion"].clone());
            assert_eq!(applied, expected, "{name}");
        }
    }
}
