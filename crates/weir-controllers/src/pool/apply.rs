//! Carries a plan out: one effect per step, and what came of each as a value.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use weir_api::capi::Machine;
use weir_api::{AzureMachinePool, AzureMachinePoolMachine, AzureMachinePoolMachineSpec, contract};
use weir_azure::{
    Accepted, ArmError, Deletion, ETag, ErrorKind, Failure, Instance, Precondition, Retry, ScaleSet,
};
use weir_core::observed::{self as core, Reading};
use weir_core::plan::{Action, Census, LOOK_AFTER_WRITE, Plan, Step};

use super::observe::{Objects, Scene, instance_provider_id, line};
use super::refusal::is_refusal;
use crate::context::Ctx;
use crate::marks;
use crate::metrics::StepLabels;
use crate::model;

/// What came of a plan's steps, in their order.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// The steps that were carried out.
    pub done: Vec<Step>,
    /// The steps that were refused, and why.
    pub refused: Vec<(Step, StepError)>,
}

/// A step was refused.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Azure refused it.
    #[error(transparent)]
    Azure(#[from] ArmError),
    /// The management cluster refused it.
    #[error("the management cluster refused it: {}", line(.0))]
    Kubernetes(#[from] kube::Error),
    /// Azure lists the instance under an id that is no ARM path.
    #[error("instance {0} has an id that is no ARM path: report this as a bug")]
    NoProviderId(String),
    /// What the step is about is no longer in this turn's look.
    #[error("{0} is no longer there")]
    Gone(String),
}

impl Outcomes {
    /// Returns when the refused steps may be tried again, apart from those that a plan decides on.
    pub(super) fn retry(&self) -> Vec<Retry> {
        self.refused
            .iter()
            .filter(|(step, error)| !is_planned_for(&step.action, error))
            .map(|(_, error)| error.retry())
            .collect()
    }

    /// Returns whether something was refused that the next plan takes into account.
    pub(super) fn call_for_a_plan(&self) -> bool {
        self.refused
            .iter()
            .any(|(step, error)| is_planned_for(&step.action, error))
    }
}

impl StepError {
    fn retry(&self) -> Retry {
        match self {
            StepError::Azure(error) => error.retry(),
            StepError::Kubernetes(_) | StepError::Gone(_) => Retry::Backoff,
            StepError::NoProviderId(_) => Retry::Never,
        }
    }

    /// Returns one word in camel case.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            StepError::Azure(error) => match error.code() {
                Some(code) if !code.is_empty() => code.to_owned(),
                _ => camel_case(error.kind().as_str()),
            },
            StepError::Kubernetes(_) => "ManagementClusterRefused".to_owned(),
            StepError::NoProviderId(_) => "NoProviderId".to_owned(),
            StepError::Gone(_) => "Gone".to_owned(),
        }
    }

    /// Returns what happened and what to do, in one line.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            StepError::Azure(error) => error.line(),
            other => other.to_string(),
        }
    }

    /// Returns whether it only means that somebody else was quicker.
    #[must_use]
    pub fn is_a_race(&self) -> bool {
        use weir_azure::ErrorKind as K;
        match self {
            StepError::Azure(error) => matches!(
                error.kind(),
                K::Conflict
                    | K::PreconditionFailed
                    | K::Preempted
                    | K::UnknownInstance
                    | K::MarkedForDeletion
            ),
            StepError::Kubernetes(kube::Error::Api(status)) => status.is_conflict(),
            StepError::Gone(_) => true,
            StepError::Kubernetes(_) | StepError::NoProviderId(_) => false,
        }
    }
}

/// R18: where Azure gives no more instances, the plan goes on with what there is, and says when to
/// ask again.
fn is_planned_for(action: &Action, error: &StepError) -> bool {
    matches!(error, StepError::Azure(error) if is_refusal(error.kind()))
        && !matches!(action, Action::CreateScaleSet { .. })
}

fn camel_case(words: &str) -> String {
    let mut camel = String::new();
    for word in words.split('_') {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.extend(letters);
    }
    camel
}

/// Carries a plan out.
pub(super) async fn apply(
    pool: &AzureMachinePool,
    scene: &Scene,
    plan: &Plan,
    ctx: &Ctx,
) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for step in &plan.steps {
        let result = carry_out(pool, scene, &step.action, ctx).await;
        let outcome = if result.is_ok() { "done" } else { "refused" };
        let labels = StepLabels {
            action: name(&step.action),
            outcome: outcome.to_owned(),
        };
        ctx.metrics.steps.get_or_create(&labels).inc();
        match result {
            Ok(()) => {
                tracing::info!(pool = %scene.key, step = %step, "done");
                outcomes.done.push(step.clone());
            }
            Err(error) => {
                learn(scene, step, &error, ctx);
                tracing::warn!(pool = %scene.key, step = %step, error = error.line(), "refused");
                outcomes.refused.push((step.clone(), error));
            }
        }
    }
    outcomes
}

/// Remembers what a refusal tells of Azure.
fn learn(scene: &Scene, step: &Step, error: &StepError, ctx: &Ctx) {
    let StepError::Azure(error) = error else {
        return;
    };
    let now = ctx.clock.now();
    let instances = scene.observed.instances_known();
    let deleting = instances.iter().any(core::Instance::is_being_deleted);
    let is_delete = matches!(step.action, Action::DeleteInstances { .. });
    if is_delete && deleting && error.kind() == ErrorKind::Conflict {
        ctx.remember(&scene.key, |memory| memory.deletes_collided(now));
    }
    if is_refusal(error.kind())
        && let Reading::Known(Some(scale_set)) = &scene.observed.scale_set
    {
        let census = Census::take(&scene.observed, scale_set, instances);
        let failure = Failure {
            code: error.code().unwrap_or_default().to_owned(),
            message: error.message().unwrap_or_default().to_owned(),
        };
        let revision = &scene.observed.pool.revision;
        ctx.remember(&scene.key, |memory| {
            memory
                .refusals
                .refused(&failure, census.total(), revision, now);
        });
    }
}

fn name(action: &Action) -> String {
    match action {
        Action::CreateScaleSet { .. } => "create_scale_set",
        Action::UpdateModel { .. } => "update_model",
        Action::RaiseCapacity { .. } => "raise_capacity",
        Action::PutBackCapacity { .. } => "put_back_capacity",
        Action::DeleteInstances { .. } => "delete_instances",
        Action::DeleteScaleSet => "delete_scale_set",
        Action::AddMachine { .. } => "add_machine",
        Action::RemoveMachine { .. } => "remove_machine",
        Action::ReleaseMachine { .. } => "release_machine",
        Action::ReleasePool => "release_pool",
    }
    .to_owned()
}

async fn carry_out(
    pool: &AzureMachinePool,
    scene: &Scene,
    action: &Action,
    ctx: &Ctx,
) -> Result<(), StepError> {
    match action {
        Action::CreateScaleSet { capacity } => {
            put_scale_set(scene, *capacity, Precondition::Absent, ctx).await
        }
        Action::UpdateModel { capacity } => {
            let on = Precondition::Matches(current_etag(scene, ctx).await?);
            put_scale_set(scene, *capacity, on, ctx).await
        }
        Action::RaiseCapacity { to } | Action::PutBackCapacity { to } => {
            set_capacity(scene, *to, ctx).await
        }
        Action::DeleteInstances { instances } => {
            let arm = &scene.arm;
            arm.delete_instances(&scene.scale_set_id, instances, Deletion::Graceful)
                .await?;
            let now = ctx.clock.now();
            ctx.remember(&scene.key, |memory| memory.deletes_accepted(instances, now));
            Ok(())
        }
        Action::DeleteScaleSet => {
            ctx.remember(&scene.key, |memory| memory.end_look());
            scene
                .arm
                .delete_scale_set(&scene.scale_set_id, Deletion::Graceful)
                .await?;
            Ok(())
        }
        Action::AddMachine { instance } => add_machine(pool, scene, instance, ctx).await,
        Action::RemoveMachine { instance } => {
            let objects = scene.objects.get(instance);
            let objects = objects.ok_or_else(|| StepError::Gone(instance.clone()))?;
            remove_machine(objects, scene, ctx).await
        }
        Action::ReleaseMachine { machine } => {
            let objects = scene.objects.get(&format!("orphan/{machine}"));
            let objects = objects.ok_or_else(|| StepError::Gone(machine.clone()))?;
            release_machine(pool, objects, ctx).await
        }
        Action::ReleasePool => release_pool(pool, scene, ctx).await,
    }
}

/// Returns the etag of the scale set that the plan was made for.
///
/// After a delete of ours it is read again, and only taken if nothing else has changed with it.
async fn current_etag(scene: &Scene, ctx: &Ctx) -> Result<ETag, StepError> {
    let gone = || StepError::Gone(scene.scale_set_id.to_string());
    let look = scene.look.as_ref().ok_or_else(gone)?;
    let seen = look.scale_set.as_ref().ok_or_else(gone)?;
    if !look.etag_is_old {
        return seen.etag.clone().ok_or_else(gone);
    }
    let live = scene.arm.get_scale_set(&scene.scale_set_id).await?;
    let live = live.ok_or_else(gone)?;
    let now = ctx.clock.now();
    ctx.remember(&scene.key, |memory| memory.take_over(live.clone(), now));
    if live.capacity() != seen.capacity() || live.tags != seen.tags {
        return Err(gone());
    }
    live.etag.ok_or_else(gone)
}

async fn put_scale_set(
    scene: &Scene,
    capacity: u32,
    on: Precondition,
    ctx: &Ctx,
) -> Result<(), StepError> {
    let wanted = scene
        .wanted
        .as_ref()
        .ok_or_else(|| StepError::Gone(scene.key.to_string()))?;
    let actual = scene.look.as_ref().and_then(|look| look.scale_set.as_ref());
    let body = model::body(wanted, actual, capacity);
    let accepted = scene
        .arm
        .put_scale_set(&scene.scale_set_id, &body, on)
        .await?;
    keep(scene, accepted, ctx);
    Ok(())
}

async fn set_capacity(scene: &Scene, to: u32, ctx: &Ctx) -> Result<(), StepError> {
    let wanted = scene
        .wanted
        .as_ref()
        .ok_or_else(|| StepError::Gone(scene.key.to_string()))?;
    let etag = current_etag(scene, ctx).await?;
    let patch = model::capacity_patch(wanted, to);
    let accepted = scene
        .arm
        .patch_scale_set(&scene.scale_set_id, &patch, &etag)
        .await?;
    keep(scene, accepted, ctx);
    Ok(())
}

fn keep(scene: &Scene, accepted: Accepted<ScaleSet>, ctx: &Ctx) {
    let now = ctx.clock.now();
    ctx.remember(&scene.key, |memory| {
        memory.operation = accepted.operation;
        memory.take_over(accepted.resource, now);
        memory.look_serves_until = now + LOOK_AFTER_WRITE;
    });
}

async fn add_machine(
    pool: &AzureMachinePool,
    scene: &Scene,
    id: &str,
    ctx: &Ctx,
) -> Result<(), StepError> {
    let listed = scene.look.iter().flat_map(|look| &look.instances);
    let instance = listed
        .into_iter()
        .find(|instance| instance.instance_id == id);
    let instance = instance.ok_or_else(|| StepError::Gone(id.to_owned()))?;
    let machine = pool_machine(pool, scene, instance)
        .ok_or_else(|| StepError::NoProviderId(id.to_owned()))?;
    let api: Api<AzureMachinePoolMachine> = Api::namespaced(ctx.kube.clone(), &scene.key.namespace);
    match api.create(&PostParams::default(), &machine).await {
        // Made in an earlier turn and not in the cache yet, or the last one of this id is going.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}

fn pool_machine(
    pool: &AzureMachinePool,
    scene: &Scene,
    instance: &Instance,
) -> Option<AzureMachinePoolMachine> {
    let spec = AzureMachinePoolMachineSpec {
        provider_id: instance_provider_id(instance)?,
        instance_id: Some(instance.instance_id.clone()),
    };
    let name = format!("{}-{}", pool.name_any(), instance.instance_id);
    let mut machine = AzureMachinePoolMachine::new(&name, spec);
    let owner = scene
        .machine_pool
        .as_ref()
        .map_or_else(|| pool.name_any(), |p| p.name_any());
    let mut annotations = std::collections::BTreeMap::new();
    if let Some(vm_id) = &instance.properties.vm_id {
        annotations.insert(marks::VM_ID.to_owned(), vm_id.clone());
    }
    let known = scene
        .observed
        .instances_known()
        .iter()
        .find(|i| i.id == instance.instance_id);
    if let Some(revision) = known.and_then(|instance| instance.revision.as_ref()) {
        annotations.insert(marks::REVISION.to_owned(), revision.0.clone());
    }
    machine.metadata = ObjectMeta {
        name: Some(name),
        namespace: pool.namespace(),
        labels: Some(
            [
                (
                    contract::label::CLUSTER_NAME.to_owned(),
                    scene.cluster_name.clone(),
                ),
                (
                    contract::label::POOL_NAME.to_owned(),
                    contract::must_format_value(&owner),
                ),
                (
                    contract::label::AZURE_MACHINE_POOL.to_owned(),
                    pool.name_any(),
                ),
            ]
            .into(),
        ),
        annotations: Some(annotations),
        finalizers: Some(vec![
            contract::finalizer::AZURE_MACHINE_POOL_MACHINE.to_owned(),
        ]),
        // Not the controller: core makes the Machine that.
        owner_references: Some(vec![OwnerReference {
            api_version: AzureMachinePool::api_version(&()).into_owned(),
            kind: AzureMachinePool::kind(&()).into_owned(),
            name: pool.name_any(),
            uid: pool.uid().unwrap_or_default(),
            controller: None,
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    };
    Some(machine)
}

/// Asks a machine to go. With a Machine, core drains its node; without, `machine.rs` does.
async fn remove_machine(objects: &Objects, scene: &Scene, ctx: &Ctx) -> Result<(), StepError> {
    let namespace = &scene.key.namespace;
    match &objects.machine {
        Some(machine) => {
            delete(
                &Api::<Machine>::namespaced(ctx.kube.clone(), namespace),
                &**machine,
            )
            .await?;
        }
        None => {
            let api = Api::<AzureMachinePoolMachine>::namespaced(ctx.kube.clone(), namespace);
            delete(&api, &*objects.pool_machine).await?;
        }
    }
    let (name, uid) = (objects.pool_machine.name_any(), objects.pool_machine.uid());
    ctx.remember(&scene.key, |memory| {
        memory.sent_away.insert(name, uid.unwrap_or_default());
    });
    Ok(())
}

/// Lets the objects of a machine go whose instance is gone.
async fn release_machine(
    pool: &AzureMachinePool,
    objects: &Objects,
    ctx: &Ctx,
) -> Result<(), StepError> {
    let machine = &objects.pool_machine;
    let namespace = machine.namespace().unwrap_or_default();
    let own = Api::<AzureMachinePoolMachine>::namespaced(ctx.kube.clone(), &namespace);
    let going = machine.metadata.deletion_timestamp.is_some();
    match &objects.machine {
        // Core still has a node to look after: it deletes the pool machine when it is done.
        Some(core) if !going && pool.metadata.deletion_timestamp.is_none() => {
            if core.metadata.deletion_timestamp.is_none() {
                delete(
                    &Api::<Machine>::namespaced(ctx.kube.clone(), &namespace),
                    &**core,
                )
                .await?;
            }
            return Ok(());
        }
        _ if !going => delete(&own, &**machine).await?,
        _ => {}
    }
    drop_finalizer(
        &own,
        &**machine,
        contract::finalizer::AZURE_MACHINE_POOL_MACHINE,
    )
    .await
}

async fn release_pool(pool: &AzureMachinePool, scene: &Scene, ctx: &Ctx) -> Result<(), StepError> {
    let api = Api::<AzureMachinePool>::namespaced(ctx.kube.clone(), &scene.key.namespace);
    drop_finalizer(&api, pool, contract::finalizer::MACHINE_POOL).await
}

/// Deletes this very object, and not one made later under the same name.
pub(crate) async fn delete<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: object.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(&object.name_any(), &params).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Takes a finalizer off, leaving those of others.
async fn drop_finalizer<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<(), StepError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let Some(live) = api.get_opt(&object.name_any()).await? else {
        return Ok(());
    };
    if live.uid() != object.uid() {
        return Ok(());
    }
    let kept: Vec<_> = live
        .finalizers()
        .iter()
        .filter(|name| *name != finalizer)
        .collect();
    if kept.len() == live.finalizers().len() {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "finalizers": kept,
        "resourceVersion": live.resource_version(),
    }});
    match api
        .patch(
            &live.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}
