//! Which CustomResourceDefinitions does a cluster need, as files?

use std::fs;

use anyhow::{Context, ensure};

use crate::paths;

/// What to do with the files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Bring them up to date.
    Write,
    /// Fail unless they are.
    Check,
}

/// Writes one file per definition to `deploy/crds`, or compares.
///
/// # Errors
/// A file cannot be written, or differs in [`Mode::Check`].
pub(crate) fn run(mode: Mode) -> anyhow::Result<()> {
    let directory = paths::repository().join("deploy/crds");
    fs::create_dir_all(&directory).context("failed to create deploy/crds")?;
    let mut outdated = Vec::new();
    for crd in weir_api::crds() {
        let name = weir_api::crd::crd_file_name(&crd);
        let yaml = weir_api::crd_yaml(&crd);
        let path = directory.join(&name);
        match mode {
            Mode::Write => {
                fs::write(&path, yaml).with_context(|| format!("failed to write {name}"))?;
            }
            Mode::Check => {
                if fs::read_to_string(&path).unwrap_or_default() != yaml {
                    outdated.push(name);
                }
            }
        }
    }
    ensure!(
        outdated.is_empty(),
        "run `cargo xtask crds`: {outdated:?} in deploy/crds is old"
    );
    Ok(())
}
