//! The commands, one file each.

pub(crate) mod azure_sim;
pub(crate) mod controller;
