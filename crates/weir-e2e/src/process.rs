//! How is a program run so that its output is kept and it never outlives the test?
//!
//! A [`Process`] is killed when it is dropped, which a panic does too. Against a test that is
//! itself killed there is a watchdog: a shell that reads the ids of our processes from a pipe, and
//! when the pipe closes, which the kernel does whatever way we end, kills those that are left.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::wait::wait_until;

/// Lines of a log that an error shows.
const SHOWN_LINES_MAX: usize = 25;

/// Reads `guard PID` and `release PID`; kills what is guarded when its input ends.
const WATCHDOG: &str = r#"
guarded=""
while read -r order id; do
    case "$order" in
        guard) guarded="$guarded $id" ;;
        release)
            kept=""
            for other in $guarded; do
                [ "$other" = "$id" ] || kept="$kept $other"
            done
            guarded="$kept"
            ;;
    esac
done
[ -z "$guarded" ] || kill -9 $guarded
"#;

/// A program that runs beside the test and ends with it.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts a program; what it prints goes to `<name>.log` in `directory`, after what is there.
    ///
    /// # Errors
    /// The log cannot be written, or there is no such program.
    pub fn start(directory: &Path, name: &str, mut command: Command) -> anyhow::Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("failed to open {}", log.display()))?;
        let errors = output.try_clone().context("failed to open a log twice")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        tell_watchdog("guard", child.id())?;
        Ok(Self {
            name: name.to_owned(),
            log,
            child,
        })
    }

    /// Returns the kernel's number for it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns where what it prints goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the last lines that it printed, as far as they can be read.
    pub fn last_lines(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..].join("\n")
    }

    /// Returns how it ended, if it has.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn exit_status(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("failed to look after {}", self.name))
    }

    /// Waits until `look` answers true.
    ///
    /// # Errors
    /// The program ended, or the answer was not true within `limit`. Both show its last lines.
    pub async fn wait_until_ready(
        &mut self,
        limit: Duration,
        mut look: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        enum Seen {
            Ready,
            Ended(ExitStatus),
        }
        let what = format!("answer of {}", self.name);
        let seen = wait_until(&what, limit, async || {
            if let Some(status) = self.exit_status()? {
                return Ok(Some(Seen::Ended(status)));
            }
            Ok(look().await?.then_some(Seen::Ready))
        });
        match seen.await {
            Ok(Seen::Ready) => Ok(()),
            Ok(Seen::Ended(status)) => {
                bail!(
                    "{} ended with {status}; its last lines:\n{}",
                    self.name,
                    self.last_lines()
                )
            }
            Err(error) => Err(error.context(format!(
                "{} is not ready; its last lines:\n{}",
                self.name,
                self.last_lines()
            ))),
        }
    }

    /// Asks it to end, as Kubernetes would, and waits until it has.
    ///
    /// # Errors
    /// It still runs after `limit`.
    pub async fn terminate(mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let asked = Command::new("kill")
            .args(["-TERM", &self.id().to_string()])
            .status()
            .context("failed to run kill")?;
        if !asked.success() {
            bail!("failed to ask {} to end: {asked}", self.name);
        }
        let what = format!("end of {}", self.name);
        wait_until(&what, limit, async || self.exit_status()).await
    }

    /// Ends it at once, as a crash would.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither can fail in a way that matters: it has ended already, or the kernel is unwell.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = tell_watchdog("release", self.child.id());
    }
}

fn tell_watchdog(order: &str, id: u32) -> anyhow::Result<()> {
    static WATCHDOG_INPUT: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();

    let input = WATCHDOG_INPUT
        .get_or_init(|| start_watchdog().map(Mutex::new))
        .as_ref()
        .context("failed to start the watchdog")?;
    // Another thread's panic leaves whole lines behind.
    let mut input = input
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    writeln!(input, "{order} {id}").context("the watchdog has gone")
}

fn start_watchdog() -> Option<ChildStdin> {
    Command::new("sh")
        .args(["-c", WATCHDOG])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In a group of its own it survives a Ctrl-C that ends the test.
        .process_group(0)
        .spawn()
        .ok()?
        .stdin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_process_has_ended() {
        let directory = std::env::temp_dir();
        let process = Process::start(&directory, "weir-e2e-dropped", sleep()).unwrap();
        let id = process.id();
        assert!(is_running(id));
        drop(process);
        assert!(!is_running(id));
    }

    #[test]
    fn the_watchdog_kills_what_is_left_when_its_input_ends() {
        let mut kept = sleep().spawn().unwrap();
        let mut left = sleep().spawn().unwrap();
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = watchdog.stdin.take().unwrap();
        for (order, child) in [("guard", &left), ("guard", &kept), ("release", &kept)] {
            writeln!(input, "{order} {}", child.id()).unwrap();
        }
        drop(input);
        watchdog.wait().unwrap();
        assert!(!left.wait().unwrap().success());
        assert_eq!(kept.try_wait().unwrap(), None);
        kept.kill().unwrap();
        kept.wait().unwrap();
    }

    #[tokio::test]
    async fn a_process_that_ends_early_shows_its_last_lines() {
        let directory = std::env::temp_dir();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such flag; exit 3"]);
        let mut process = Process::start(&directory, "weir-e2e-early", command).unwrap();
        let ready = process
            .wait_until_ready(Duration::from_secs(10), async || Ok(false))
            .await;
        let error = ready.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("no such flag"), "{error}");
    }

    #[tokio::test]
    async fn a_process_can_be_asked_to_end() {
        let directory = std::env::temp_dir();
        let process = Process::start(&directory, "weir-e2e-asked", sleep()).unwrap();
        let status = process.terminate(Duration::from_secs(10)).await.unwrap();
        assert!(!status.success());
    }

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    fn is_running(id: u32) -> bool {
        Path::new(&format!("/proc/{id}")).exists()
    }
}
