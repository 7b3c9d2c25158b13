//! Reconcilers: observe, plan, apply, report.
//!
//! [`pool`] drives one machine pool a turn at a time and [`machine`] one pool machine. Both are
//! plain async functions over a [`Ctx`]: `runtime.rs` hands them to kube's controllers, and the
//! simulation calls them directly in an order of its own. All decisions are made in `weir-core`.

pub mod access;
pub mod caches;
pub mod clock;
pub mod context;
pub mod events;
pub mod leader;
pub mod machine;
pub mod marks;
pub mod metrics;
pub mod model;
pub mod pool;
pub mod runtime;
pub mod wake;
pub mod workload;

pub use clock::{Clock, SystemClock};
pub use context::{Ctx, Key};
