//! How does one test Weir against a real Kubernetes and a real Cluster API, on one machine?
//!
//! [`ControlPlane::start`] brings up two API servers as plain processes on loopback:
//! `management`, with Cluster API's core, and `workload`, with everything that pods and budgets
//! need and kwok in place of kubelets. [`fixtures`] makes the objects that a pool needs around it.
//! What a test starts itself, it starts with [`Process::start`], and it waits with [`wait_until`].
//!
//! Nothing here knows how Weir works: `weir` is a program that is started like the others. Read
//! `control_plane.rs` next, and `tests/control_plane.rs` for how it is used; `tests/pool` is Weir's
//! own story.

mod certificates;
mod cluster_api;
mod control_plane;
pub mod fixtures;
mod http;
mod objects;
mod ports;
mod process;
mod servers;
mod testbed;
mod wait;

pub use crate::control_plane::{ControlPlane, KubernetesApi};
pub use crate::http::{get, server};
pub use crate::objects::{apply, apply_status, object_api};
pub use crate::ports::free_ports;
pub use crate::process::Process;
pub use crate::testbed::{fresh_directory, weir_binary};
pub use crate::wait::wait_until;
