//! The annotations in which Weir keeps what it must remember, and those that users set.
//!
//! They survive restarts and `clusterctl move`, which drops every status.

/// The revision that an instance was made for.
pub const REVISION: &str = "weir.infrastructure.cluster.x-k8s.io/revision";

/// Azure's identity of the virtual machine, since instance ids are reused.
pub const VM_ID: &str = "weir.infrastructure.cluster.x-k8s.io/vm-id";

/// When Weir's own drain of the node began.
pub const DRAIN_BEGAN: &str = "weir.infrastructure.cluster.x-k8s.io/drain-began";

/// When Weir's own drain of the node was over.
pub const DRAINED: &str = "weir.infrastructure.cluster.x-k8s.io/drained";

/// How many instances an autoscaled pool was last seen to have, leaving ones included.
pub const REPLICAS: &str = "weir.infrastructure.cluster.x-k8s.io/replicas";

/// Set by users: which change of the bootstrap data makes instances old. `Reference` (the default)
/// is another Secret, `Content` another meaning of what is in it, `Never` none.
pub const ROLL_ON_BOOTSTRAP: &str = "weir.infrastructure.cluster.x-k8s.io/roll-on-bootstrap";
