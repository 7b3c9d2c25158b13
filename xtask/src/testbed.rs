//! How is the real control plane of the end-to-end suite built, and where is it kept?
//!
//! The servers are Go programs, pinned by the modules in `tools/testbed` and built by the ordinary
//! Go client into the user's cache, in a directory named after the pins: a changed pin is another
//! directory, and one that is complete is never touched again. Nothing is written to the source
//! tree. `weir-e2e` asks this task where the servers are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::paths;

/// One program to build.
struct Program {
    /// Directory below `tools/testbed` whose go.mod pins it.
    module: &'static str,
    package: &'static str,
    name: &'static str,
    ldflags: &'static str,
}

const STRIP: &str = "-s -w";

/// A build outside of the Kubernetes repository has no version of its own and would report v0.0.0,
/// which clients refuse to talk to. It has to agree with the pin in kubernetes/go.mod.
const KUBERNETES: &str = "-s -w \
    -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=36";

const PROGRAMS: [Program; 8] = [
    Program {
        module: "etcd",
        package: ".",
        name: "etcd",
        ldflags: STRIP,
    },
    Program {
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        name: "kube-apiserver",
        ldflags: KUBERNETES,
    },
    Program {
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        name: "kube-controller-manager",
        ldflags: KUBERNETES,
    },
    Program {
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-scheduler",
        name: "kube-scheduler",
        ldflags: KUBERNETES,
    },
    Program {
        module: "cluster-api",
        package: "sigs.k8s.io/cluster-api/core",
        name: "cluster-api-core",
        ldflags: STRIP,
    },
    Program {
        module: "cluster-api",
        package: "sigs.k8s.io/cluster-api/bootstrap/kubeadm",
        name: "cluster-api-kubeadm-bootstrap",
        ldflags: STRIP,
    },
    Program {
        module: "cluster-api",
        package: "sigs.k8s.io/cluster-api/cmd/clusterctl",
        name: "clusterctl",
        ldflags: STRIP,
    },
    Program {
        module: "kwok",
        package: "sigs.k8s.io/kwok/cmd/kwok",
        name: "kwok",
        ldflags: STRIP,
    },
];

/// Manifests taken out of the Cluster API module: directory in it, directory in the testbed.
const MANIFESTS: [(&str, &str); 4] = [
    ("core/config/crd/bases", "cluster-api/core/crds"),
    ("core/config/webhook", "cluster-api/core/webhook"),
    (
        "bootstrap/kubeadm/config/crd/bases",
        "cluster-api/kubeadm-bootstrap/crds",
    ),
    (
        "bootstrap/kubeadm/config/webhook",
        "cluster-api/kubeadm-bootstrap/webhook",
    ),
];

/// Flags of every build.
///
/// `readonly` keeps go.mod and go.sum as they were committed; `modcacherw` lets the user delete the
/// module cache by ordinary means; version control says nothing about these programs.
const BUILD_FLAGS: [&str; 4] = [
    "-mod=readonly",
    "-modcacherw",
    "-trimpath",
    "-buildvcs=false",
];

/// File that says that a testbed is complete; written last.
const COMPLETE: &str = "complete";

/// Returns the directory of the complete testbed, after building it if need be.
///
/// It holds `bin/` and `cluster-api/`. Safe to run twice at once and to kill at any moment.
///
/// # Errors
/// There is no `go`, a module cannot be downloaded, or a build fails.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let sources = paths::repository().join("tools/testbed");
    let testbed = paths::cache()?.join("testbed").join(key(&sources)?);
    if testbed.join(COMPLETE).exists() {
        return Ok(testbed);
    }

    let bin = testbed.join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("failed to create {}", bin.display()))?;
    // The lock ends with the process that holds it, however that ends.
    let lock = File::create(testbed.join("lock")).context("failed to create the testbed's lock")?;
    lock.lock().context("failed to lock the testbed")?;
    if testbed.join(COMPLETE).exists() {
        return Ok(testbed);
    }

    eprintln!(
        "building the control plane into {} (some minutes)",
        testbed.display()
    );
    for program in &PROGRAMS {
        build_program(&sources, &bin, program)?;
    }
    copy_manifests(&sources, &testbed)?;
    fs::write(testbed.join(COMPLETE), "").context("failed to mark the testbed as complete")?;
    Ok(testbed)
}

/// Returns the name for the testbed that these sources and flags make.
fn key(sources: &Path) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        // With its length in front, no two lists of parts look the same.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(std::env::consts::OS.as_bytes());
    add(std::env::consts::ARCH.as_bytes());
    for flag in BUILD_FLAGS {
        add(flag.as_bytes());
    }
    for Program {
        module,
        package,
        name,
        ldflags,
    } in &PROGRAMS
    {
        for part in [module, package, name, ldflags] {
            add(part.as_bytes());
        }
    }
    for (from, to) in MANIFESTS {
        add(from.as_bytes());
        add(to.as_bytes());
    }
    for path in files_below(sources)? {
        let name = path
            .strip_prefix(sources)
            .expect("it was found below the sources");
        add(name.as_os_str().as_encoded_bytes());
        let content = fs::read(&path).with_context(|| format!("failed to read {path:?}"))?;
        add(&content);
    }
    let digest = hash.finalize();
    Ok(digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Returns every file two levels down, sorted: one directory per module, no deeper.
fn files_below(sources: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for module in list(sources)? {
        if module.is_dir() {
            files.extend(list(&module)?.into_iter().filter(|path| path.is_file()));
        }
    }
    files.sort();
    Ok(files)
}

fn list(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("failed to list {}", directory.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(
            entry
                .with_context(|| format!("failed to list {directory:?}"))?
                .path(),
        );
    }
    paths.sort();
    Ok(paths)
}

fn build_program(sources: &Path, bin: &Path, program: &Program) -> anyhow::Result<()> {
    let started = Instant::now();
    // Go writes its output in place. Under another name until it is whole, a build that is killed
    // leaves nothing that looks like a program.
    let partial = bin.join(format!(".{}.partial", program.name));
    let status = go()
        .current_dir(sources.join(program.module))
        .arg("build")
        .args(BUILD_FLAGS)
        .args(["-ldflags", program.ldflags])
        .arg("-o")
        .arg(&partial)
        .arg(program.package)
        .status()
        .map_err(explain_missing_go)?;
    ensure!(
        status.success(),
        "go could not build {}: {status}",
        program.name
    );
    fs::rename(&partial, bin.join(program.name))
        .with_context(|| format!("failed to put {} in place", program.name))?;
    eprintln!(
        "  {:28} {:6.1} s",
        program.name,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn copy_manifests(sources: &Path, testbed: &Path) -> anyhow::Result<()> {
    let output = go()
        .current_dir(sources.join("cluster-api"))
        .args([
            "list",
            "-mod=readonly",
            "-m",
            "-f",
            "{{.Dir}}",
            "sigs.k8s.io/cluster-api",
        ])
        .output()
        .map_err(explain_missing_go)?;
    ensure!(
        output.status.success(),
        "go does not know where Cluster API lies: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let module = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    for (from, to) in MANIFESTS {
        let to = testbed.join(to);
        fs::create_dir_all(&to).with_context(|| format!("failed to create {}", to.display()))?;
        for path in list(&module.join(from))? {
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let name = path.file_name().expect("it has an extension");
                copy(&path, &to.join(name))?;
            }
        }
    }
    Ok(())
}

/// Copies the content alone: files in Go's module cache are read-only, and their copies would be.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let content = fs::read(from).with_context(|| format!("failed to read {}", from.display()))?;
    fs::write(to, content).with_context(|| format!("failed to write {}", to.display()))
}

fn go() -> Command {
    let mut go = Command::new("go");
    // A workspace file in some directory above would replace the pins.
    go.env("GOWORK", "off");
    go
}

fn explain_missing_go(error: std::io::Error) -> anyhow::Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return anyhow::anyhow!(
            "the end-to-end suite builds its control plane with Go, and there is no `go` in PATH; \
             install Go 1.26 or later, or leave the suite out with `cargo xtask test --no-e2e`"
        );
    }
    anyhow::Error::new(error).context("failed to run go")
}
