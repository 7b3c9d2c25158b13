//! How fast does a pool roll, and at what price?
//!
//! Everything but the planner's own time and the process's memory is measured in virtual time, so
//! that a figure is the same on every machine. docs/performance.md says how to read the figures,
//! why they are fair and what they hide. Read `run.rs` next.

mod course;
mod explain;
mod ideal;
mod planner;
mod run;
mod scenario;

pub use course::{Course, Spans};
pub use explain::{Explanation, explain};
pub use ideal::{Cycle, Limits, ideal};
pub use planner::{PlannerFigures, mid_roll, planner_time};
pub use run::{Ran, RolloutFigures, run};
pub use scenario::{Scenario, TimesAre, scenarios};
