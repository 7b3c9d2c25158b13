//! Who goes next among those that may: one total order, without dice.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::{Census, Member, Model, Reason, Standing};
use crate::observed::{DeletePolicy, instance_order};

/// R16: the members that a claim is true of and that are not leaving, fittest to go first.
pub(super) fn fittest_to_go<'c, 'o>(
    census: &'c Census<'o>,
    claim: impl Fn(&Member<'o>) -> bool,
) -> Vec<&'c Member<'o>> {
    let mut found: Vec<_> = census
        .members
        .iter()
        .filter(|m| !m.is_leaving() && claim(m))
        .collect();
    found.sort_by_cached_key(|m| (!m.is_marked(), rank(m), by_policy(census, m)));
    found
}

/// Serving instances that are to be replaced: the unhealthy, then those of an old model.
pub(super) fn old_and_serving<'c, 'o>(census: &'c Census<'o>) -> Vec<(&'c Member<'o>, Reason)> {
    let fittest = fittest_to_go(census, |m| m.is(Model::Old) && m.is_available());
    let (unhealthy, old): (Vec<_>, Vec<_>) =
        fittest.into_iter().partition(|m| m.finding().is_some());
    let unhealthy = unhealthy.into_iter().map(|m| (m, why_old(m)));
    unhealthy.chain(by_zone(old)).collect()
}

/// Why an instance that does not have to be broken is to be replaced.
pub(super) fn why_old(member: &Member<'_>) -> Reason {
    match member.finding() {
        Some(found) => Reason::Unhealthy {
            why: found.why.clone(),
        },
        None => Reason::OldModel,
    }
}

/// R17: from the zone that has most of them first.
fn by_zone<'c, 'o>(fittest: Vec<&'c Member<'o>>) -> Vec<(&'c Member<'o>, Reason)> {
    let count = fittest.len();
    let mut zones: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
    for (rank, member) in fittest.into_iter().enumerate() {
        let zone = zones.entry(&member.instance.zone).or_default();
        zone.push_back((rank, member));
    }
    let mut in_order = Vec::with_capacity(count);
    // Most members first; among zones with as many, the one whose next member is fittest to go.
    while let Some(fullest) = zones
        .values_mut()
        .max_by_key(|zone| (zone.len(), Reverse(zone.front().map(|(rank, _)| *rank))))
        && let Some((_, member)) = fullest.pop_front()
    {
        in_order.push((member, Reason::OldModel));
    }
    in_order
}

fn rank(member: &Member<'_>) -> u8 {
    match (&member.standing, member.model) {
        (Standing::Broken { .. }, Model::Old) => 0,
        (Standing::Broken { .. }, Model::Current) => 1,
        (Standing::Starting { .. }, _) => 2,
        (Standing::Unready { .. }, _) => 3,
        (Standing::Serving, Model::Old) if member.finding().is_some() => 4,
        (Standing::Serving, Model::Old) => 5,
        (Standing::Serving, Model::Current) => 6,
        (Standing::Leaving, _) => 7,
    }
}

/// The delete policy as a number that sorts, with the id as the last word.
fn by_policy(census: &Census<'_>, member: &Member<'_>) -> (i128, (u64, String)) {
    let age = match census.observed.pool.delete_policy {
        DeletePolicy::Oldest => member.instance.created.as_nanosecond(),
        DeletePolicy::Newest => -member.instance.created.as_nanosecond(),
        DeletePolicy::Random => i128::from(hash(&member.instance.vm_id)),
    };
    (age, instance_order(&member.instance.id))
}

/// FNV-1a: spreads names evenly and is the same everywhere.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
