//! Is every word of a pool in its model, and is a revision new only when it has to be?

use serde_json::{Value, json};
use weir_api::AzureMachinePool;
use weir_api::azure::AzureCluster;
use weir_api::capi::MachinePool;

use super::*;

mod changes;
mod fields;
mod parts;
mod revisions;

const SUBSCRIPTION: &str = "11111111-2222-3333-4444-555555555555";

/// A world in which a plain Linux pool lives; each test changes what it is about.
struct World {
    spec: Value,
    annotations: BTreeMap<String, String>,
    name: String,
    machine_pool: Value,
    azure_cluster: Value,
    bootstrap: BootstrapData,
}

impl World {
    fn new() -> Self {
        Self {
            spec: json!({
                "location": "westeurope",
                "template": {
                    "vmSize": "Standard_D2s_v5",
                    "osDisk": { "osType": "Linux", "diskSizeGB": 30 },
                    "sshPublicKey": BASE64.encode("ssh-rsa AAAAB3Nza someone\n"),
                },
            }),
            annotations: BTreeMap::new(),
            name: "pool-a".to_owned(),
            machine_pool: json!({
                "spec": {
                    "clusterName": "lab",
                    "failureDomains": ["2", "1"],
                    "template": { "spec": { "version": "v1.33.1" } },
                },
            }),
            azure_cluster: json!({
                "metadata": { "name": "lab-azure" },
                "spec": {
                    "location": "westeurope",
                    "subscriptionID": SUBSCRIPTION,
                    "resourceGroup": "Lab-RG",
                    "additionalTags": { "owner": "platform", "stage": "test" },
                    "networkSpec": {
                        "vnet": { "name": "lab-vnet", "resourceGroup": "net-rg" },
                        "subnets": [
                            { "name": "cp", "role": "control-plane" },
                            { "name": "nodes", "role": "node" },
                        ],
                    },
                },
            }),
            bootstrap: BootstrapData {
                secret_name: "pool-a-bootstrap-1".to_owned(),
                data: b"#cloud-config\n# token abcdef.0123456789abcdef\n".to_vec(),
                format: Some("cloud-config".to_owned()),
            },
        }
    }

    /// Puts values over those of the spec, object by object and entry by entry.
    fn with(mut self, change: Value) -> Self {
        overlay(&mut self.spec, change);
        self
    }

    fn with_pool(mut self, change: Value) -> Self {
        overlay(&mut self.machine_pool, change);
        self
    }

    fn with_cluster(mut self, change: Value) -> Self {
        overlay(&mut self.azure_cluster, change);
        self
    }

    fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn pool(&self) -> AzureMachinePool {
        let spec = serde_json::from_value(self.spec.clone()).unwrap();
        let mut pool = AzureMachinePool::new(&self.name, spec);
        pool.metadata.annotations = Some(self.annotations.clone());
        pool
    }

    fn machine_pool(&self) -> MachinePool {
        serde_json::from_value(self.machine_pool.clone()).unwrap()
    }

    fn azure_cluster(&self) -> AzureCluster {
        serde_json::from_value(self.azure_cluster.clone()).unwrap()
    }

    fn try_wanted(&self) -> Result<Wanted, ModelError> {
        wanted(&Ingredients {
            pool: &self.pool(),
            machine_pool: &self.machine_pool(),
            cluster_name: "lab",
            azure_cluster: &self.azure_cluster(),
            bootstrap: &self.bootstrap,
        })
    }

    fn wanted(&self) -> Wanted {
        self.try_wanted().unwrap()
    }

    /// The body as JSON, as it goes over the wire.
    fn json(&self) -> Value {
        serde_json::to_value(self.wanted().scale_set).unwrap()
    }

    fn profile(&self) -> Value {
        self.json()["properties"]["virtualMachineProfile"].clone()
    }

    fn revision(&self) -> String {
        self.wanted().revision.0
    }
}

/// Like a merge patch, except that lists are merged entry by entry; null takes away.
fn overlay(base: &mut Value, change: Value) {
    match (base, change) {
        (Value::Object(base), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    base.remove(&key);
                } else {
                    overlay(base.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(base), Value::Array(change)) => {
            for (index, value) in change.into_iter().enumerate() {
                match base.get_mut(index) {
                    Some(entry) => overlay(entry, value),
                    None => base.push(value),
                }
            }
        }
        (base, change) => *base = change,
    }
}
