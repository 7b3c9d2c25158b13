//! Decides how a pool rolls: values in, values out.
//!
//! [`plan`](plan::plan) looks at one [`Observed`] and answers with a [`Plan`]: the steps to take at
//! this moment and the reasons for not taking more. Nothing here does I/O, reads a clock or draws
//! a random number, so every decision can be repeated, printed and searched exhaustively.
//!
//! Read [`observed`] for what is looked at, then [`mod@plan`], then a file in `tests/rollouts/`.

pub mod check;
pub mod conditions;
pub mod drain;
pub mod observed;
pub mod plan;
pub mod view;

pub use observed::Observed;
pub use plan::{Plan, plan};
