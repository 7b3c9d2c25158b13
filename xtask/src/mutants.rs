//! Would the tests notice if the planner were wrong?
//!
//! Small faults are planted one at a time into a copy of `weir-core`, and its tests have to fail.
//! A fault that they let pass shows a rule that nothing holds. `faults` is the list, `copy` is where
//! they are planted, `suite` runs the tests.

use std::time::Instant;

use anyhow::{Context, bail, ensure};

use copy::Copy;
use faults::{FAULTS, Fault};
use suite::{Suite, Verdict};

mod copy;
mod faults;
mod suite;

/// Plants each fault whose name has `part` in it and prints which test noticed it.
///
/// # Errors
/// The tests fail without a fault, a fault is not noticed, or its text is not in the sources.
pub(crate) fn run(part: Option<&str>) -> anyhow::Result<()> {
    let started = Instant::now();
    let copy = Copy::make()?;
    let suite = Suite::of(&copy)?;
    match suite.run().context("the tests without a fault")? {
        Verdict::Passed => {}
        Verdict::Failed(test) => bail!("{test} fails without any fault"),
        Verdict::NotBuilt => bail!("the tests do not build without any fault"),
    }

    let mut outcomes = Vec::new();
    let part = part.unwrap_or_default();
    for fault in FAULTS.iter().filter(|fault| fault.name.contains(part)) {
        let begun = Instant::now();
        let outcome = plant(fault, &copy, &suite)?;
        let took = begun.elapsed().as_secs_f64();
        println!(
            "{:4} {:55} {:5.1} s  {}",
            fault.rule,
            fault.name,
            took,
            outcome.told()
        );
        outcomes.push((fault, outcome));
    }

    ensure!(!outcomes.is_empty(), "no fault has {part:?} in its name");
    let missed: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| !matches!(outcome, Outcome::Noticed(_)))
        .map(|(fault, outcome)| format!("{} ({})", fault.name, outcome.told()))
        .collect();
    println!(
        "mutants: {} planted, {} noticed, {:.0} s",
        outcomes.len(),
        outcomes.len() - missed.len(),
        started.elapsed().as_secs_f64()
    );
    ensure!(missed.is_empty(), "not noticed: {}", missed.join("; "));
    Ok(())
}

/// What became of a fault.
enum Outcome {
    /// This test failed.
    Noticed(String),
    /// All tests passed.
    Survived,
    /// It does not compile, so it proves nothing.
    NotBuilt,
    /// Its text stands in the file so many times and not once.
    NoSuchText(usize),
}

impl Outcome {
    fn told(&self) -> String {
        match self {
            Outcome::Noticed(test) => test.clone(),
            Outcome::Survived => "NO TEST NOTICES".to_owned(),
            Outcome::NotBuilt => "DOES NOT COMPILE: update the table".to_owned(),
            Outcome::NoSuchText(count) => format!("TEXT FOUND {count} TIMES: update the table"),
        }
    }
}

fn plant(fault: &Fault, copy: &Copy, suite: &Suite) -> anyhow::Result<Outcome> {
    let source = copy.read(fault.file)?;
    let count = source.matches(fault.text).count();
    if count != 1 {
        return Ok(Outcome::NoSuchText(count));
    }
    copy.write(fault.file, &source.replacen(fault.text, fault.with, 1))?;
    let verdict = suite.run();
    copy.write(fault.file, &source)?;
    Ok(match verdict? {
        Verdict::Passed => Outcome::Survived,
        Verdict::Failed(test) => Outcome::Noticed(test),
        Verdict::NotBuilt => Outcome::NotBuilt,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::paths;

    #[test]
    fn each_fault_has_a_name_of_its_own_and_changes_one_place() {
        let mut names = BTreeSet::new();
        for fault in FAULTS {
            assert!(names.insert(fault.name), "{} is listed twice", fault.name);
            assert_ne!(fault.text, fault.with, "{}", fault.name);
            let path = paths::repository().join(copy::SOURCES).join(fault.file);
            let source = fs::read_to_string(path).unwrap();
            let count = source.matches(fault.text).count();
            assert_eq!(count, 1, "{}: update the table", fault.name);
        }
    }
}
