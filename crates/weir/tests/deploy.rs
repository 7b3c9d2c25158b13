//! Do the manifests in `deploy/` fit the binary, clusterctl, and each other?

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize as _;
use serde_json::Value;
use support::{directory, only_error, run, weir};

const PROVIDER: &str = "/metadata/labels/cluster.x-k8s.io~1provider";

#[test]
fn clusterctl_finds_one_namespace_a_container_and_its_label_on_everything() {
    let objects = objects();
    let namespaces: Vec<&str> = of_kind(&objects, "Namespace").map(name).collect();
    let [namespace] = namespaces[..] else {
        panic!("not one Namespace: {namespaces:?}");
    };
    for object in &objects {
        let label = object.pointer(PROVIDER).and_then(Value::as_str);
        assert_eq!(label, Some("infrastructure-azure"), "{object}");
        if let Some(its) = object.pointer("/metadata/namespace") {
            assert_eq!(its, namespace, "{object}");
        }
    }
    let containers = of_kind(&objects, "Deployment").flat_map(containers);
    let names: Vec<&str> = containers
        .filter_map(|each| each["name"].as_str())
        .collect();
    assert_eq!(names, ["manager"]);
}

#[test]
fn the_deployment_runs_as_the_account_that_has_the_rights() {
    let objects = objects();
    let deployment = of_kind(&objects, "Deployment").next().unwrap();
    let account = deployment
        .pointer("/spec/template/spec/serviceAccountName")
        .unwrap();
    let selector = deployment.pointer("/spec/selector/matchLabels").unwrap();
    for (label, value) in selector.as_object().unwrap() {
        let labels = deployment
            .pointer("/spec/template/metadata/labels")
            .unwrap();
        assert_eq!(&labels[label], value, "{label}");
    }
    assert!(of_kind(&objects, "ServiceAccount").any(|each| name(each) == account));
    for (binding, role) in [
        ("ClusterRoleBinding", "ClusterRole"),
        ("RoleBinding", "Role"),
    ] {
        let binding = of_kind(&objects, binding).next().unwrap();
        assert_eq!(&binding["subjects"][0]["name"], account);
        assert_eq!(binding["roleRef"]["kind"], role);
        assert!(of_kind(&objects, role).any(|each| name(each) == binding["roleRef"]["name"]));
    }
}

#[test]
fn no_rule_is_for_everything() {
    let objects = objects();
    let rules = of_kind(&objects, "ClusterRole")
        .chain(of_kind(&objects, "Role"))
        .flat_map(|role| role["rules"].as_array().unwrap());
    for rule in rules {
        for field in ["apiGroups", "resources", "verbs"] {
            let words: BTreeSet<&str> = rule[field]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            assert!(
                !words.is_empty() && !words.contains("*"),
                "{field} of {rule}"
            );
        }
    }
}

#[tokio::test]
async fn the_binary_takes_the_arguments_of_the_deployment() {
    let objects = objects();
    let container = of_kind(&objects, "Deployment")
        .flat_map(containers)
        .next()
        .unwrap();
    let arguments = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str);
    let directory = directory("deployment");
    let mut command = weir(&directory);
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(directory.join("absent"));
    let line = only_error(&run(command).await, "arguments");
    assert!(line.contains("failed to use --kubeconfig"), "{line}");
}

/// Returns all objects of the manifests, definitions of kinds apart.
fn objects() -> Vec<Value> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let mut objects = Vec::new();
    for file in ["deployment.yaml", "rbac.yaml"] {
        let text = fs::read_to_string(deploy.join(file)).unwrap();
        for document in serde_yaml::Deserializer::from_str(&text) {
            objects.push(Value::deserialize(document).unwrap());
        }
    }
    objects
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn containers(deployment: &Value) -> &Vec<Value> {
    deployment
        .pointer("/spec/template/spec/containers")
        .unwrap()
        .as_array()
        .unwrap()
}
