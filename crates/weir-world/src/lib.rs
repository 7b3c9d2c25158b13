//! What would Azure and a cluster do?
//!
//! A simulated Azure and a simulated Kubernetes with Cluster API core on one virtual clock. The
//! crate knows nothing of the code that is tested with it: it shares no rules with it. Start with
//! [`world`].

pub mod azure;
pub mod cluster;
pub mod rng;
pub mod serve;
pub mod serve_azure;
pub mod tally;
pub mod trace;
pub mod world;
