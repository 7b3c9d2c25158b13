//! Where are the programs, and where may a test write?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The built control plane; `cargo xtask testbed` makes it.
#[derive(Clone, Debug)]
pub(crate) struct Testbed {
    directory: PathBuf,
}

impl Testbed {
    /// Finds the testbed, which builds it if it was never built: some minutes.
    pub(crate) fn find() -> anyhow::Result<Self> {
        if let Some(directory) = std::env::var_os("WEIR_TESTBED") {
            return Ok(Self {
                directory: directory.into(),
            });
        }
        let output = Command::new("cargo")
            .current_dir(repository())
            .args(["xtask", "testbed"])
            .stderr(std::process::Stdio::inherit())
            .output()
            .context("failed to run cargo xtask testbed")?;
        ensure!(output.status.success(), "cargo xtask testbed failed");
        let directory = String::from_utf8(output.stdout)
            .context("not a path")?
            .trim()
            .into();
        Ok(Self { directory })
    }

    /// Returns a command for one of the programs.
    pub(crate) fn program(&self, name: &str) -> Command {
        Command::new(self.directory.join("bin").join(name))
    }

    /// Returns the documents of Cluster API's core manifests below `crds` or `webhook`, by file.
    pub(crate) fn core_manifests(&self, kind: &str) -> anyhow::Result<Vec<serde_json::Value>> {
        let directory = self.directory.join("cluster-api/core").join(kind);
        let mut paths = Vec::new();
        for entry in fs::read_dir(&directory)
            .with_context(|| format!("failed to list {}", directory.display()))?
        {
            paths.push(entry?.path());
        }
        paths.sort();
        let mut documents = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("failed to read {}", path.display()))?;
            documents.extend(
                read_documents(&text).with_context(|| format!("bad YAML in {}", path.display()))?,
            );
        }
        Ok(documents)
    }
}

fn read_documents(text: &str) -> anyhow::Result<Vec<serde_json::Value>> {
    use serde::Deserialize;

    let mut documents = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let value = serde_json::Value::deserialize(document)?;
        if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}

/// Returns the program under test.
///
/// `$WEIR_BINARY`, or `weir` of the same profile as this test. Cargo gives the path of a binary
/// only to tests of its own package, and this package must not depend on it.
///
/// # Errors
/// It was not built.
pub fn weir_binary() -> anyhow::Result<PathBuf> {
    if let Some(binary) = std::env::var_os("WEIR_BINARY") {
        return Ok(binary.into());
    }
    let test = std::env::current_exe().context("this program has no path")?;
    // <target>/<profile>/deps/<test>
    let binary = test
        .ancestors()
        .nth(2)
        .context("not in a target directory")?
        .join("weir");
    ensure!(binary.exists(), "build it first: cargo build --bin weir");
    Ok(binary)
}

/// Returns an empty directory `name` in `parent`, for instance in cargo's `CARGO_TARGET_TMPDIR`.
///
/// It is left there after the test, with the logs; the next run empties it.
///
/// # Errors
/// It cannot be emptied or created.
pub fn fresh_directory(parent: impl AsRef<Path>, name: &str) -> anyhow::Result<PathBuf> {
    let directory = parent.as_ref().join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)
            .with_context(|| format!("failed to empty {}", directory.display()))?;
    }
    fs::create_dir_all(&directory)
        .with_context(|| format!("failed to create {}", directory.display()))?;
    Ok(directory)
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("it lies two levels down")
}
