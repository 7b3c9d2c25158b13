//! Which crate may depend on which?
//!
//! The edges between our crates are the architecture: the planner can do no I/O because it has
//! nothing to do it with, and the simulated world cannot agree with the planner by accident because
//! it never sees it.

use super::{Kind, Package};

/// What one of our crates may use.
struct Rule {
    name: &'static str,
    /// Crates of ours that it may use for any purpose.
    may_use: &'static [&'static str],
    /// Crates of ours that its tests may use on top.
    tests_may_use: &'static [&'static str],
    /// Crates of others that it must not name, not even in tests. A last `*` matches any rest.
    banned: &'static [&'static str],
}

const RULES: [Rule; 9] = [
    Rule {
        name: "weir-core",
        may_use: &[],
        tests_may_use: &[],
        banned: &[
            "tokio",
            "kube",
            "kube-*",
            "k8s-openapi",
            "azure_*",
            "rand",
            "rand_*",
        ],
    },
    Rule {
        name: "weir-api",
        may_use: &[],
        tests_may_use: &[],
        banned: &["tokio"],
    },
    Rule {
        name: "weir-azure",
        may_use: &[],
        tests_may_use: &[],
        banned: &[],
    },
    Rule {
        name: "weir-world",
        may_use: &["weir-api", "weir-azure"],
        tests_may_use: &[],
        banned: &[],
    },
    Rule {
        name: "weir-controllers",
        may_use: &["weir-core", "weir-api", "weir-azure"],
        tests_may_use: &["weir-world", "weir-sim"],
        banned: &[],
    },
    Rule {
        name: "weir-sim",
        may_use: &[
            "weir-api",
            "weir-azure",
            "weir-controllers",
            "weir-core",
            "weir-world",
        ],
        tests_may_use: &[],
        banned: &[],
    },
    Rule {
        name: "weir",
        may_use: &[
            "weir-api",
            "weir-azure",
            "weir-controllers",
            "weir-core",
            "weir-sim",
            "weir-world",
        ],
        tests_may_use: &[],
        banned: &[],
    },
    Rule {
        name: "weir-e2e",
        may_use: &["weir-api"],
        tests_may_use: &[],
        banned: &[],
    },
    Rule {
        name: "xtask",
        may_use: &["weir-api"],
        tests_may_use: &[],
        banned: &[],
    },
];

/// Returns one sentence for each dependency that no rule allows.
pub(super) fn breaches(packages: &[Package]) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in packages {
        let Some(rule) = RULES.iter().find(|rule| rule.name == package.name) else {
            breaches.push(format!(
                "{}: no rule in tidy says what it may use",
                package.name
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let allowed = match dependency.kind {
                Some(Kind::Dev) => {
                    rule.may_use.contains(&dependency.name.as_str())
                        || rule.tests_may_use.contains(&dependency.name.as_str())
                }
                Some(Kind::Build) | None => rule.may_use.contains(&dependency.name.as_str()),
            };
            if is_ours(&dependency.name) && !allowed {
                breaches.push(format!("{} must not use {}", package.name, dependency.name));
            }
            if rule
                .banned
                .iter()
                .any(|pattern| matches(pattern, &dependency.name))
            {
                breaches.push(format!(
                    "{} must do without {}",
                    package.name, dependency.name
                ));
            }
        }
    }
    breaches
}

fn is_ours(name: &str) -> bool {
    RULES.iter().any(|rule| rule.name == name)
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Dependency;

    #[test]
    fn an_edge_is_allowed_only_by_its_rule() {
        let rows = [
            ("weir-core", "weir-api", None, 1),
            ("weir-core", "serde", None, 0),
            ("weir-core", "tokio", Some(Kind::Dev), 1),
            ("weir-core", "azure_core", None, 1),
            ("weir-core", "rand_chacha", None, 1),
            ("weir-api", "k8s-openapi", None, 0),
            ("weir-api", "tokio", None, 1),
            ("weir-world", "weir-azure", None, 0),
            ("weir-world", "weir-core", Some(Kind::Dev), 1),
            ("weir-controllers", "weir-world", Some(Kind::Dev), 0),
            ("weir-controllers", "weir-world", Some(Kind::Build), 1),
            ("weir-controllers", "weir-world", None, 1),
            ("weir", "weir-sim", None, 0),
            ("weir", "weir-e2e", Some(Kind::Dev), 1),
            ("weir-e2e", "weir-controllers", Some(Kind::Dev), 1),
            ("xtask", "weir-api", None, 0),
        ];
        for (from, to, kind, expected) in rows {
            let found = breaches(&[package(from, to, kind)]);
            assert_eq!(
                found.len(),
                expected,
                "{from} -> {to} ({kind:?}): {found:?}"
            );
        }
    }

    #[test]
    fn a_crate_without_a_rule_is_a_breach() {
        assert_eq!(breaches(&[package("weir-extra", "serde", None)]).len(), 1);
    }

    #[test]
    fn rules_allow_no_cycle() {
        // Every crate that a rule allows has to stand above it in some order: remove what uses
        // nothing of the rest until nothing is left.
        let mut rest: Vec<&Rule> = RULES.iter().collect();
        while !rest.is_empty() {
            let names: Vec<&str> = rest.iter().map(|rule| rule.name).collect();
            let before = rest.len();
            rest.retain(|rule| rule.may_use.iter().any(|used| names.contains(used)));
            assert!(rest.len() < before, "a cycle among {names:?}");
        }
    }

    fn package(from: &str, to: &str, kind: Option<Kind>) -> Package {
        Package {
            name: from.to_owned(),
            manifest_path: "Cargo.toml".into(),
            dependencies: vec![Dependency {
                name: to.to_owned(),
                kind,
            }],
            targets: Vec::new(),
        }
    }
}
