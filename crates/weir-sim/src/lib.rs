//! Controllers in a simulated world, driven by a seed.
//!
//! The only place where the code that decides and the world that answers meet. [`rig`] runs the
//! real reconcilers on the real clients over a simulated Azure and cluster; the seed picks whose
//! turn it is, so that a run can be repeated to the letter. [`story`] draws what happens, and
//! [`checkers`] hold what must never happen.

pub mod checkers;
pub mod coverage;
mod feed;
mod judge;
pub mod rig;
pub mod rollout;
pub mod scene;
mod seams;
pub mod shrink;
pub mod story;
