//! Who goes next among those that may: one total order, without dice.

use std::collections::BTreeMap;

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
    found.sort_by_cached_key(|member| {
        let marked = member
            .instance
            .machine
            .as_ref()
            .is_some_and(|m| m.delete_marked);
        (!marked, rank(member), by_policy(census, member))
    });
    found
}

/// R17: serving instances of an old model, from the zone that has most of them first.
pub(super) fn old_and_serving<'c, 'o>(census: &'c Census<'o>) -> Vec<(&'c Member<'o>, Reason)> {
    let mut left = fittest_to_go(census, |m| m.is(Model::Old) && m.is_available());
    let mut in_order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let mut per_zone = BTreeMap::new();
        for member in &left {
            *per_zone.entry(&member.instance.zone).or_insert(0_u32) += 1;
        }
        let most = per_zone.values().copied().max().unwrap_or(0);
        let next = left
            .iter()
            .position(|member| per_zone.get(&member.instance.zone) == Some(&most))
            .unwrap_or(0);
        in_order.push((left.remove(next), Reason::OldModel));
    }
    in_order
}

fn rank(member: &Member<'_>) -> u8 {
    match (&member.standing, member.model) {
        (Standing::Broken { .. }, Model::Old) => 0,
        (Standing::Broken { .. }, Model::Current) => 1,
        (Standing::Starting { .. }, _) => 2,
        (Standing::Unready { .. }, _) => 3,
        (Standing::Serving, Model::Old) => 4,
        (Standing::Serving, Model::Current) => 5,
        (Standing::Leaving, _) => 6,
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
