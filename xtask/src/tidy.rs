//! Does the repository keep the rules that neither the compiler nor clippy checks?
//!
//! `edges` asks which crate may use which, `sources` looks at each file, `lexer` is what the latter
//! reads them with. A rule is here because it holds up the design; see `docs/ARCHITECTURE.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::paths;

mod edges;
mod lexer;
mod sources;

/// What `cargo metadata` says, as far as tidy or a build step asks.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    /// Where cargo puts what it builds.
    pub(crate) target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<Kind>,
}

/// What a dependency is for; cargo writes none for an ordinary one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Dev,
    Build,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

/// Prints every breach of a rule.
///
/// # Errors
/// There was a breach, or the repository cannot be read.
pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let mut breaches = edges::breaches(&metadata.packages);
    let mut file_count = 0;
    for package in &metadata.packages {
        let directory = package
            .manifest_path
            .parent()
            .context("a manifest lies in a directory")?;
        let files = rust_files(directory)?;
        file_count += files.len();
        let roots = package
            .targets
            .iter()
            .map(|target| target.src_path.clone())
            .collect();
        breaches.extend(sources::breaches(roots, &files)?);
    }

    breaches.sort();
    for breach in &breaches {
        let root = format!("{}/", paths::repository().display());
        eprintln!("tidy: {}", breach.replace(&root, ""));
    }
    ensure!(
        breaches.is_empty(),
        "tidy found {} breaches",
        breaches.len()
    );
    println!(
        "tidy: {} crates, {file_count} files, no breach",
        metadata.packages.len()
    );
    Ok(())
}

/// Asks cargo about the crates of this repository.
///
/// # Errors
/// Cargo cannot be run, or a manifest is broken.
pub(crate) fn metadata() -> anyhow::Result<Metadata> {
    let output = Command::new("cargo")
        .current_dir(paths::repository())
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("failed to run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("failed to read what cargo metadata said")
}

/// Returns every Rust file of a package, sorted.
fn rust_files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .with_context(|| format!("failed to list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
