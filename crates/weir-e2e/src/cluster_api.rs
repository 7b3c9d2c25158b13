//! How is Cluster API's core installed for a manager that runs outside of the cluster?
//!
//! Its manifests are made for a manager behind a Service, whose address kustomize and cert-manager
//! fill in. Here the address is a port on loopback and the authority is our own.

use serde_json::{Value, json};

/// Where the webhooks of a manager are served, and the authority that clients trust there.
pub(crate) struct Webhooks {
    pub(crate) port: u16,
    pub(crate) ca_bundle: Value,
}

impl Webhooks {
    fn client_config(&self, path: &str) -> Value {
        json!({
            "url": format!("https://127.0.0.1:{}{path}", self.port),
            "caBundle": self.ca_bundle,
        })
    }

    /// Makes a definition convert its versions by these webhooks.
    ///
    /// Cluster API itself sets this on each of its definitions, and the label of the contract is
    /// for the kinds of providers only.
    pub(crate) fn convert_definition(&self, definition: &mut Value) {
        definition["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": self.client_config("/convert"),
            },
        });
    }

    /// Replaces the Service in every entry of a webhook configuration.
    pub(crate) fn serve_configuration(&self, configuration: &mut Value) {
        let Some(webhooks) = configuration["webhooks"].as_array_mut() else {
            return;
        };
        for webhook in webhooks {
            let path = webhook["clientConfig"]["service"]["path"]
                .as_str()
                .unwrap_or("/");
            webhook["clientConfig"] = self.client_config(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_keeps_its_path_and_loses_its_service() {
        let webhooks = Webhooks {
            port: 7,
            ca_bundle: json!("authority"),
        };
        let service = json!({"name": "webhook-service", "path": "/mutate"});
        let mut configuration = json!({"webhooks": [{"clientConfig": {"service": service}}]});
        webhooks.serve_configuration(&mut configuration);
        assert_eq!(
            configuration["webhooks"][0]["clientConfig"],
            json!({"url": "https://127.0.0.1:7/mutate", "caBundle": "authority"})
        );
    }
}
