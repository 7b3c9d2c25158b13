//! How long would a scheduler take that sees everything at once and pays nothing for it?
//!
//! Written apart from the planner: it knows floor, ceiling and the times, and nothing else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The numbers that a rollout has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// N.
    pub replicas: u32,
    /// S, in instances.
    pub surge: u32,
    /// U, in instances.
    pub unavailable: u32,
}

/// How long an old instance takes to leave, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// From being asked to go to the end of its drain.
    pub drain: i64,
    /// From the accepted delete to its end.
    pub delete: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Serves,
    Drained { delete: i64 },
    Gone,
}

/// Returns how long the rollout takes at best, in milliseconds, with these times in this order.
///
/// Whatever floor and ceiling allow is done at the very instant at which they allow it. `None` if
/// there are fewer times than replicas, or if nothing may ever move.
#[must_use]
pub fn ideal(limits: Limits, creates: &[i64], leaves: &[Cycle]) -> Option<i64> {
    let Limits {
        replicas,
        surge,
        unavailable,
    } = limits;
    let count = replicas as usize;
    if creates.len() < count || leaves.len() < count {
        return None;
    }
    let (floor, ceiling) = (replicas.saturating_sub(unavailable), replicas + surge);
    let (mut creates, mut leaves) = (creates[..count].iter(), leaves[..count].iter());
    let (mut total, mut available, mut gone) = (replicas, replicas, 0);
    let mut now = 0;
    let mut due = BinaryHeap::new();
    loop {
        while total < ceiling
            && let Some(create) = creates.next()
        {
            total += 1;
            due.push(Reverse((now + create, Event::Serves)));
        }
        while available > floor
            && let Some(cycle) = leaves.next()
        {
            available -= 1;
            let delete = cycle.delete;
            due.push(Reverse((now + cycle.drain, Event::Drained { delete })));
        }
        let Some(Reverse((at, event))) = due.pop() else {
            return (gone == replicas).then_some(now);
        };
        now = at;
        match event {
            Event::Serves => available += 1,
            Event::Drained { delete } => due.push(Reverse((now + delete, Event::Gone))),
            Event::Gone => {
                total -= 1;
                gone += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(replicas: u32, surge: u32, unavailable: u32) -> Option<i64> {
        let limits = Limits {
            replicas,
            surge,
            unavailable,
        };
        let cycle = Cycle {
            drain: 30,
            delete: 60,
        };
        let count = replicas as usize;
        ideal(limits, &vec![150; count], &vec![cycle; count])
    }

    #[test]
    fn with_equal_times_it_takes_whole_cycles() {
        let rows = [
            ("3 with surge 1", equal(3, 1, 0), Some(3 * 240)),
            ("10 with surge 3", equal(10, 3, 0), Some(4 * 240)),
            ("100 with surge 10", equal(100, 10, 0), Some(10 * 240)),
            ("all at once", equal(4, 4, 0), Some(240)),
            ("nothing may move", equal(4, 0, 0), None),
        ];
        for (name, took, expected) in rows {
            assert_eq!(took, expected, "{name}");
        }
    }

    #[test]
    fn without_surge_the_last_replacement_ends_it() {
        // Drain and delete first, then create: two rounds of four with two unavailable.
        assert_eq!(equal(4, 0, 2), Some(2 * 240));
    }

    #[test]
    fn a_slow_one_holds_up_only_its_own_slot() {
        let limits = Limits {
            replicas: 4,
            surge: 2,
            unavailable: 0,
        };
        let cycle = Cycle {
            drain: 0,
            delete: 0,
        };
        let took = ideal(limits, &[300, 100, 100, 100], &[cycle; 4]);
        assert_eq!(took, Some(300));
    }

    #[test]
    fn missing_times_give_no_answer() {
        let limits = Limits {
            replicas: 2,
            surge: 1,
            unavailable: 0,
        };
        assert_eq!(ideal(limits, &[1], &[]), None);
    }
}
