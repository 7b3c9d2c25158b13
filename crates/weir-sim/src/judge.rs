//! Judges each plan that a simulated turn made, on its own observation.

use weir_core::Observed;
use weir_core::observed::Reading;
use weir_core::plan::{Action, Census, Member, Model, Plan, Reason};

/// Lists the promises that a plan breaks.
pub(crate) fn broken_promises(observed: &Observed, plan: &Plan) -> Vec<String> {
    let mut broken = weir_core::check::broken_promises(observed, plan);
    broken.extend(passed_by(observed, plan));
    broken
}

/// R16: whoever is marked goes before any other that is surplus.
fn passed_by(observed: &Observed, plan: &Plan) -> Option<String> {
    let (Reading::Known(Some(scale_set)), Reading::Known(instances)) =
        (&observed.scale_set, &observed.instances)
    else {
        return None;
    };
    let census = Census::take(observed, scale_set, instances);
    let marked = |m: &Member<'_>| m.instance.machine.as_ref().is_some_and(|m| m.delete_marked);
    let goes = |id: &str, wanted: fn(&Reason) -> bool| {
        plan.steps.iter().any(|step| {
            matches!(&step.action, Action::RemoveMachine { instance } if instance == id)
                && wanted(&step.because)
        })
    };
    let is_surplus: fn(&Reason) -> bool = |why| matches!(why, Reason::Surplus { .. });
    let chosen = census
        .members
        .iter()
        .find(|m| !marked(m) && goes(&m.instance.id, is_surplus))?;
    let left = census.members.iter().find(|m| {
        marked(m)
            && !m.is_leaving()
            && !m.instance.protected
            && m.is(Model::Current)
            // The floor may hold an available one back and let another go that serves nobody.
            && (chosen.is_available() || !m.is_available())
            && !goes(&m.instance.id, |_| true)
    })?;
    Some(format!(
        "R16: {} goes although {} is marked",
        chosen.instance.id, left.instance.id
    ))
}
