//! Which CustomResourceDefinitions does a cluster need, as files?

use std::fs;
use std::path::PathBuf;

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
    for (name, yaml) in files()? {
        let path = directory.join(&name);
        match mode {
            Mode::Write => {
                fs::write(&path, yaml).with_context(|| format!("failed to write {path:?}"))?;
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

/// Returns file names and contents.
fn files() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for crd in definitions() {
        let name = crd
            .metadata
            .name
            .clone()
            .context("a definition has no name")?;
        let yaml = serde_yaml::to_string(&crd)
            .with_context(|| format!("failed to write {name} as YAML"))?;
        files.push((PathBuf::from(format!("{name}.yaml")), yaml));
    }
    Ok(files)
}

fn definitions()
-> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>
{
    Vec::new()
}
