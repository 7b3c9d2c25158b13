//! What does Kubernetes do in this world?
//!
//! Two API servers, nodes, pods, and as much of Cluster API core as a machine pool can notice.
//! Nothing here is shared with the code under test. Start with [`server`].
//!
//! Kinder or simpler than the real thing, on purpose: no schemas (nothing is validated, pruned or
//! defaulted), no admission, one version per kind, no `Table` answers, `managedFields` is not
//! shown, pages of a list come from the present state, namespaces need not exist and do not end,
//! deployments have one replica set, and pods never fail by themselves.

pub mod agenda;
pub mod apply;
pub mod capi;
pub mod collect;
pub mod draw;
pub mod eviction;
pub mod fields;
pub mod http;
pub mod kinds;
pub mod kubelet;
pub mod patch;
pub mod refusal;
pub mod selector;
pub mod server;
pub mod watch;
pub mod workload;

pub use http::Reply;
pub use server::{ApiServer, Side, Target};
pub use watch::WatchId;
