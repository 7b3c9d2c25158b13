//! Looks at Azure with as few requests as will do.

use jiff::SignedDuration;
use weir_api::provider_id;
use weir_azure::{
    Arm, ArmError, ErrorKind, Instance, OperationStatus, ProvisioningState, ScaleSet, ScaleSetId,
};

use super::instance_provider_id;
use crate::context::{Ctx, Key};
use crate::pool::memory::Look;
use crate::workload::Workload;

/// How long a scale set that was read serves beside newer listings that show nothing unexpected.
const SET_AGE_MAX: SignedDuration = SignedDuration::from_secs(60);

/// Looks at Azure: not at all while the last look serves and no node has joined since, by the
/// listing alone while that shows only what we set going ourselves.
pub(super) async fn look_at_azure(
    arm: &Arm,
    id: &ScaleSetId,
    workload: &Result<Workload, String>,
    key: &Key,
    ctx: &Ctx,
) -> Result<Look, ArmError> {
    let at = ctx.clock.now();
    let unheard_of = |look: &Look| workload.as_ref().is_ok_and(|w| node_joined(w, id, look));
    if let Some(look) = ctx.remember(key, |memory| memory.fresh_look(at))
        && !unheard_of(&look)
    {
        return Ok(look);
    }
    let last = ctx.remember(key, |memory| memory.last_look());
    let last = last.filter(|look| at < look.set_read_at + SET_AGE_MAX && is_well(look));
    let look = match last {
        Some(last) => look_again(last, arm, id, ctx).await?,
        None => look_anew(arm, id, ctx).await?,
    };
    ask_why_it_failed(&look, arm, key, ctx).await;
    ctx.remember(key, |memory| memory.keep_look(look.clone()));
    Ok(look)
}

fn is_well(look: &Look) -> bool {
    look.scale_set
        .as_ref()
        .is_some_and(|set| set.provisioning_state() != ProvisioningState::Failed)
}

async fn look_again(last: Look, arm: &Arm, id: &ScaleSetId, ctx: &Ctx) -> Result<Look, ArmError> {
    let at = ctx.clock.now();
    let Some(instances) = list(arm, id).await? else {
        return Ok(Look::new(at, None, Vec::new()));
    };
    if last.expects(&instances) {
        return Ok(Look {
            at,
            instances,
            ..last
        });
    }
    Ok(Look::new(at, read_scale_set(arm, id).await?, instances))
}

async fn look_anew(arm: &Arm, id: &ScaleSetId, ctx: &Ctx) -> Result<Look, ArmError> {
    let at = ctx.clock.now();
    let Some(scale_set) = read_scale_set(arm, id).await? else {
        return Ok(Look::new(at, None, Vec::new()));
    };
    Ok(match list(arm, id).await? {
        Some(instances) => Look::new(at, Some(scale_set), instances),
        None => Look::new(at, None, Vec::new()),
    })
}

async fn read_scale_set(arm: &Arm, id: &ScaleSetId) -> Result<Option<ScaleSet>, ArmError> {
    match arm.get_scale_set(id).await {
        Err(error) if error.kind() == ErrorKind::ResourceGroupNotFound => Ok(None),
        other => other,
    }
}

/// Lists the instances; `None` if there is no such scale set any more.
async fn list(arm: &Arm, id: &ScaleSetId) -> Result<Option<Vec<Instance>>, ArmError> {
    use ErrorKind::{NotFound, ResourceGroupNotFound};
    match arm.list_instances(id).await {
        Err(error) if matches!(error.kind(), NotFound | ResourceGroupNotFound) => Ok(None),
        other => other.map(Some),
    }
}

/// Asks for the words of a failure, once: they are kept until the set is well again.
async fn ask_why_it_failed(look: &Look, arm: &Arm, key: &Key, ctx: &Ctx) {
    if is_well(look) {
        ctx.remember(key, |memory| memory.failure = None);
        return;
    }
    let Some(operation) = ctx.remember(key, |memory| memory.operation.take()) else {
        return;
    };
    if let Ok(OperationStatus::Failed(failure)) = arm.get_operation(&operation).await {
        ctx.remember(key, |memory| memory.failure = Some(failure));
    }
}

/// Whether a node of the scale set has joined since a look that does not know its instance.
fn node_joined(workload: &Workload, id: &ScaleSetId, look: &Look) -> bool {
    let prefix = format!("{}{id}/", provider_id::PREFIX).to_lowercase();
    let known = |id: &str| {
        let mut known = look.instances.iter().filter_map(instance_provider_id);
        known.any(|known| provider_id::is_same(&known, id))
    };
    workload.nodes.state().iter().any(|node| {
        // The time of creation is in whole seconds.
        let created = node.metadata.creation_timestamp.as_ref();
        let is_new = created.is_some_and(|t| t.0 + SignedDuration::from_secs(1) > look.at);
        let id = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.as_deref());
        is_new && id.is_some_and(|id| id.to_lowercase().starts_with(&prefix) && !known(id))
    })
}
