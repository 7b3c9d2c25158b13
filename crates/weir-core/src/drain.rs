//! What to do next for a node that is being emptied, for drains that Cluster API core does not do.
//!
//! Core drains the node of every Machine that is deleted. Weir drains by itself only where there
//! is no Machine: the objects are younger than core's reaction, or core is not there to react.
//! Pods, owners and the time come in as values; the answer is what to send and what to wait for.

use jiff::{SignedDuration, Timestamp};

/// How long to leave a node alone after its evictions were sent or refused.
///
/// A budget rarely changes faster, and a refused eviction costs the API server as much as a
/// granted one. Cluster API core uses the same interval.
pub const EVICTION_RETRY: SignedDuration = SignedDuration::from_secs(20);

/// A node that is to be emptied, and what is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePods {
    /// When this look was taken.
    pub at: Timestamp,
    /// When this drain began.
    pub began: Timestamp,
    /// How long it may take; `None` is for ever.
    pub limit: Option<SignedDuration>,
    /// The node; `None` when it is not in the cluster.
    pub node: Option<NodeState>,
    /// The pods bound to it, in the order of their names.
    pub pods: Vec<Pod>,
}

/// What a drain asks of the node itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Whether new pods are kept away.
    pub cordoned: bool,
    /// Whether its kubelet is heard of.
    pub reachable: bool,
}

/// A pod, as far as a drain asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace and name, as `namespace/name`.
    pub name: String,
    /// Who would bring it back, and where.
    pub kind: PodKind,
    /// Whether it has ended by itself.
    pub finished: bool,
    /// Since when it is on its way out.
    pub terminating_since: Option<Timestamp>,
}

/// How a pod came to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodKind {
    /// Anything that may run elsewhere.
    Ordinary,
    /// Of a DaemonSet: it would come back to the same node.
    Daemon,
    /// The mirror of a static pod: the API server cannot evict it.
    Mirror,
    /// Its owner asked that drains leave it alone.
    Skipped,
}

/// The next step of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainStep {
    /// Keep new pods away first.
    Cordon,
    /// Ask for the eviction of these pods (`namespace/name`), then look again.
    Evict(Vec<String>),
    /// Nothing to send: these pods are on their way out.
    Await(Vec<String>),
    /// The drain is over.
    Over(Ending),
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing is left that a drain moves.
    Empty,
    /// The node is not in the cluster.
    NodeGone,
    /// The limit has passed.
    TimedOut,
}

/// Decides the next step of a drain.
#[must_use]
pub fn next_step(look: &NodePods) -> DrainStep {
    let Some(node) = look.node else {
        return DrainStep::Over(Ending::NodeGone);
    };
    if look
        .limit
        .is_some_and(|limit| look.at >= look.began + limit)
    {
        return DrainStep::Over(Ending::TimedOut);
    }
    if !node.cordoned {
        return DrainStep::Cordon;
    }
    let left: Vec<_> = look
        .pods
        .iter()
        .filter(|pod| holds_up(pod, node, look.at))
        .collect();
    let to_evict = names(left.iter().filter(|pod| pod.terminating_since.is_none()));
    if !to_evict.is_empty() {
        DrainStep::Evict(to_evict)
    } else if left.is_empty() {
        DrainStep::Over(Ending::Empty)
    } else {
        DrainStep::Await(names(left.iter()))
    }
}

/// Returns whether a drain has to wait for this pod.
fn holds_up(pod: &Pod, node: NodeState, at: Timestamp) -> bool {
    // Nobody ends the pods of a kubelet that is not heard of: once asked to go they count as gone.
    let given_up = !node.reachable
        && pod
            .terminating_since
            .is_some_and(|since| at > since + SignedDuration::from_secs(1));
    pod.kind == PodKind::Ordinary && !pod.finished && !given_up
}

fn names<'a>(pods: impl Iterator<Item = &'a &'a Pod>) -> Vec<String> {
    pods.map(|pod| pod.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeState = NodeState {
        cordoned: true,
        reachable: true,
    };

    fn pod(name: &str, kind: PodKind) -> Pod {
        Pod {
            name: name.to_owned(),
            kind,
            finished: false,
            terminating_since: None,
        }
    }

    fn look(node: Option<NodeState>, pods: Vec<Pod>) -> NodePods {
        let began = Timestamp::UNIX_EPOCH;
        let at = began + SignedDuration::from_mins(5);
        NodePods {
            at,
            began,
            limit: None,
            node,
            pods,
        }
    }

    #[test]
    fn a_node_is_cordoned_before_anything_is_evicted() {
        let fresh = NodeState {
            cordoned: false,
            ..NODE
        };
        let look = look(Some(fresh), vec![pod("web/a", PodKind::Ordinary)]);
        assert_eq!(next_step(&look), DrainStep::Cordon);
    }

    #[test]
    fn only_ordinary_running_pods_are_evicted() {
        let mut finished = pod("job/done", PodKind::Ordinary);
        finished.finished = true;
        let pods = vec![
            finished,
            pod("kube-system/proxy", PodKind::Daemon),
            pod("kube-system/static", PodKind::Mirror),
            pod("web/a", PodKind::Ordinary),
            pod("web/keep", PodKind::Skipped),
        ];
        assert_eq!(
            next_step(&look(Some(NODE), pods)),
            DrainStep::Evict(vec!["web/a".to_owned()])
        );
    }

    #[test]
    fn a_terminating_pod_is_waited_for_and_not_evicted_again() {
        let mut leaving = pod("web/a", PodKind::Ordinary);
        leaving.terminating_since = Some(Timestamp::UNIX_EPOCH);
        let step = next_step(&look(Some(NODE), vec![leaving.clone()]));
        assert_eq!(step, DrainStep::Await(vec!["web/a".to_owned()]));

        let unreachable = NodeState {
            reachable: false,
            ..NODE
        };
        let step = next_step(&look(Some(unreachable), vec![leaving]));
        assert_eq!(step, DrainStep::Over(Ending::Empty));
    }

    #[test]
    fn the_limit_counts_from_the_beginning_of_this_drain() {
        let mut look = look(Some(NODE), vec![pod("web/a", PodKind::Ordinary)]);
        look.limit = Some(SignedDuration::from_mins(6));
        assert_eq!(next_step(&look), DrainStep::Evict(vec!["web/a".to_owned()]));
        look.limit = Some(SignedDuration::from_mins(5));
        assert_eq!(next_step(&look), DrainStep::Over(Ending::TimedOut));
    }

    #[test]
    fn a_node_that_is_gone_needs_no_drain() {
        assert_eq!(
            next_step(&look(None, vec![])),
            DrainStep::Over(Ending::NodeGone)
        );
    }
}
