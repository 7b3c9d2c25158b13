//! Weir.
fn main() {}
