//! Golden rollouts: each story is a file that a person reviews, one line per turn.
//!
//! Each is played in a fixed order (golden), in one seeded order (golden) and in a hundred fresh
//! orders with the checks only. `UPDATE_EXPECT=1 cargo test` rewrites the files. The second line
//! names the rules of `docs/rollouts.md` (R) and the cases of the case log (C) that it shows.

// Test code: a panic is how it says no.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod stories;
mod toy;
