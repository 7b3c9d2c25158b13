//! A copy of `weir-core` in a workspace of its own, to plant faults in.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::{paths, tidy};

/// Where the sources of the planner lie, in the repository as in the copy.
pub(crate) const SOURCES: &str = "crates/weir-core/src";

/// The whole of the crate, with its tests and their goldens.
const CRATE: &str = "crates/weir-core";

/// The copy; nobody else plants faults in it as long as this value lives.
pub(crate) struct Copy {
    root: PathBuf,
    target: PathBuf,
    _lock: File,
}

impl Copy {
    /// Copies the crate as it is now.
    ///
    /// It lies in cargo's build directory, which git ignores, and builds into a place of its own
    /// that stays: the dependencies compile once.
    ///
    /// # Errors
    /// Files cannot be read or written, or another run is under way.
    pub(crate) fn make() -> anyhow::Result<Copy> {
        let directory = tidy::metadata()?.target_directory.join("mutants");
        fs::create_dir_all(&directory).context("failed to make a place for the copy")?;
        let lock = File::create(directory.join("lock")).context("failed to open the lock")?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another run is under way"),
            Err(TryLockError::Error(error)) => return Err(error).context("failed to lock"),
        }
        let root = directory.join("source");
        if root.exists() {
            fs::remove_dir_all(&root).context("failed to remove the last copy")?;
        }
        copy_all(&paths::repository().join(CRATE), &root.join(CRATE))?;
        let manifest = read(&paths::repository().join("Cargo.toml"))?;
        let member = format!("members = [\"{CRATE}\"]");
        let manifest = manifest.replacen("members = [\"crates/*\", \"xtask\"]", &member, 1);
        write(&root.join("Cargo.toml"), &(manifest + PROFILE))?;
        let lock_file = read(&paths::repository().join("Cargo.lock"))?;
        write(&root.join("Cargo.lock"), &lock_file)?;
        Ok(Copy {
            root,
            target: directory.join("build"),
            _lock: lock,
        })
    }

    /// Returns the root of the copy's workspace.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where it is built.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the names of the crate's test files, without their ending, sorted.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub(crate) fn tests(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(CRATE).join("tests"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.file_stem().context("a file has a name")?;
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns a source file as it is in the copy.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, file: &str) -> anyhow::Result<String> {
        read(&self.root.join(SOURCES).join(file))
    }

    /// Writes a source file of the copy.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        write(&self.root.join(SOURCES).join(file), text)
    }
}

/// Most of the time goes into compiling the tests, so little of it is spent on making them fast.
const PROFILE: &str = "
[profile.mutant]
inherits = \"dev\"
debug = false
";

fn copy_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("failed to make {}", to.display()))?;
    let entries =
        fs::read_dir(from).with_context(|| format!("failed to list {}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let copy = to.join(path.file_name().context("an entry has a name")?);
        if path.is_dir() {
            copy_all(&path, &copy)?;
        } else {
            fs::copy(&path, &copy).with_context(|| format!("failed to copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}
