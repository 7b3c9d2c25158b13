//! The tests of the copy, run until the first one fails.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::copy::Copy;

/// Test files in the order in which they are asked: those first that compile and run quickly.
const QUICK_FIRST: [&str; 2] = ["planner", "rollouts"];

/// What the tests say.
pub(crate) enum Verdict {
    /// All passed.
    Passed,
    /// This one failed first.
    Failed(String),
    /// They do not compile.
    NotBuilt,
}

/// The tests of a copy.
pub(crate) struct Suite<'c> {
    copy: &'c Copy,
    tests: Vec<String>,
}

/// The part of cargo's messages that is of use.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

impl Suite<'_> {
    /// Finds the test files.
    ///
    /// # Errors
    /// They cannot be listed.
    pub(crate) fn of(copy: &Copy) -> anyhow::Result<Suite<'_>> {
        let mut tests = copy.tests()?;
        tests.sort_by_key(|name| {
            let place = QUICK_FIRST.iter().position(|quick| quick == name);
            place.unwrap_or(QUICK_FIRST.len())
        });
        Ok(Suite { copy, tests })
    }

    /// Builds and runs one test file after the other, the tests in the sources last.
    ///
    /// # Errors
    /// Cargo or a test cannot be run at all.
    pub(crate) fn run(&self) -> anyhow::Result<Verdict> {
        let files = self.tests.iter().map(|name| vec!["--test", name]);
        for which in files.chain([vec!["--lib"]]) {
            let Some(executable) = self.build(&which)? else {
                return Ok(Verdict::NotBuilt);
            };
            if let Some(test) = self.first_failure(executable)? {
                let file = which.last().copied().unwrap_or_default();
                return Ok(Verdict::Failed(format!("{file}: {test}")));
            }
        }
        Ok(Verdict::Passed)
    }

    /// Returns the built test file; `None` if it does not compile.
    fn build(&self, which: &[&str]) -> anyhow::Result<Option<PathBuf>> {
        let output = Command::new("cargo")
            .current_dir(self.copy.root())
            .args(["test", "--no-run", "--offline", "--profile", "mutant"])
            .args(["--package", "weir-core", "--message-format", "json"])
            .args(which)
            .env("CARGO_TARGET_DIR", self.copy.target())
            .output()
            .context("failed to run cargo")?;
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("could not compile") {
            return Ok(None);
        }
        ensure!(output.status.success(), "cargo failed: {}", said.trim());
        let mut messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
        let executable = messages.find_map(|message: Result<Message, _>| message.ok()?.executable);
        executable.context("cargo names no test file").map(Some)
    }

    /// Runs a test file in a fixed order up to its first failure.
    fn first_failure(&self, executable: PathBuf) -> anyhow::Result<Option<String>> {
        let mut child = Command::new(&executable)
            .current_dir(self.copy.root().join("crates/weir-core"))
            .arg("--test-threads=1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("failed to run {}", executable.display()))?;
        let said = child.stdout.take().context("its output is piped")?;
        let failed = BufReader::new(said)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| failed_test(&line).map(str::to_owned));
        if failed.is_some() {
            child.kill().context("failed to end a test file")?;
        }
        let status = child.wait().context("failed to wait for a test file")?;
        if failed.is_none() && !status.success() {
            return Ok(Some(format!("it ended with {status}")));
        }
        Ok(failed)
    }
}

fn failed_test(line: &str) -> Option<&str> {
    let (test, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    verdict.starts_with("FAILED").then_some(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_test_is_read_as_one() {
        let rows = [
            ("test order::oldest ... FAILED", Some("order::oldest")),
            ("test order::oldest ... ok", None),
            ("test result: FAILED. 1 passed; 1 failed", None),
            ("running 3 tests", None),
        ];
        for (line, test) in rows {
            assert_eq!(failed_test(line), test, "{line}");
        }
    }
}
