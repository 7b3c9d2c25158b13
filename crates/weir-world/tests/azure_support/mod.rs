//! An Azure to ask, for tests.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of this"
)]

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weir_world::azure::{Azure, AzureOptions, InstanceFact, VmEvent};

pub const START: Timestamp = Timestamp::constant(1_764_496_800, 0);
pub const SUBSCRIPTION: &str = "/subscriptions/22222222-2222-2222-2222-222222222222";
pub const VERSION: &str = "api-version=2024-11-01";

pub struct Lab {
    pub azure: Azure,
    pub now: Timestamp,
    pub events: Vec<VmEvent>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: http::HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn code(&self) -> &str {
        let wrapped = self.body.pointer("/error/code");
        wrapped
            .or_else(|| self.body.get("code"))
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    pub fn message(&self) -> &str {
        self.text("/error/message")
    }

    pub fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn poll_url(&self) -> String {
        self.header("azure-asyncoperation").unwrap().to_owned()
    }
}

impl Lab {
    pub fn new(options: AzureOptions) -> Lab {
        Lab::seeded(options, 1)
    }

    pub fn seeded(options: AzureOptions, seed: u64) -> Lab {
        Lab {
            azure: Azure::new(options, seed, START),
            now: START,
            events: Vec::new(),
        }
    }

    /// A calm Azure with a settled pool `pool-a` of this capacity.
    pub fn with_pool(capacity: u32) -> Lab {
        let mut lab = Lab::new(AzureOptions::calm());
        lab.create_pool(capacity);
        lab
    }

    pub fn create_pool(&mut self, capacity: u32) {
        let made = self.put("", &pool(capacity));
        assert_eq!(made.status, StatusCode::CREATED, "{:?}", made.body);
        self.settle();
    }

    pub fn request(
        &mut self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let bytes = body.map(|body| Bytes::from(body.to_string()));
        let request = request.body(bytes.unwrap_or_default()).unwrap();
        let response = self.azure.handle(&request, self.now);
        let (parts, bytes) = response.into_parts();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub fn get_url(&mut self, url: &str) -> Answer {
        self.request(Method::GET, url, &[], None)
    }

    /// `rest` is what comes after the pool's path, with a query of its own if it has one.
    pub fn ask(&mut self, method: Method, rest: &str, body: Option<&Value>) -> Answer {
        self.request(method, &url(rest), &[], body)
    }

    pub fn get(&mut self, rest: &str) -> Answer {
        self.ask(Method::GET, rest, None)
    }

    pub fn put(&mut self, rest: &str, body: &Value) -> Answer {
        self.ask(Method::PUT, rest, Some(body))
    }

    pub fn patch(&mut self, body: &Value) -> Answer {
        self.ask(Method::PATCH, "", Some(body))
    }

    pub fn post(&mut self, rest: &str, ids: &[&str]) -> Answer {
        self.ask(Method::POST, rest, Some(&json!({"instanceIds": ids})))
    }

    pub fn delete(&mut self, rest: &str) -> Answer {
        self.ask(Method::DELETE, rest, None)
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        let events = self.azure.advance(self.now);
        self.events.extend(events);
    }

    /// Lets time pass until nothing is due any more.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let Some(due) = self.azure.next_due() else {
                return;
            };
            self.now = self.now.max(due);
            let events = self.azure.advance(self.now);
            self.events.extend(events);
        }
        panic!("it never settles");
    }

    pub fn instances(&self) -> Vec<InstanceFact> {
        self.azure.instances("pool-a")
    }

    pub fn ids(&self) -> Vec<String> {
        let facts = self.instances().into_iter();
        facts.map(|fact| fact.vm.instance_id).collect()
    }

    pub fn capacity(&mut self) -> u64 {
        self.get("").body["sku"]["capacity"].as_u64().unwrap()
    }

    pub fn state(&mut self) -> String {
        self.get("")
            .text("/properties/provisioningState")
            .to_owned()
    }
}

/// Returns the URL of the pool, of a part of it or of an instance.
pub fn url(rest: &str) -> String {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let and = if query.is_empty() { "" } else { "&" };
    format!(
        "https://management.azure.com{SUBSCRIPTION}/resourceGroups/Cluster-A/providers/\
         Microsoft.Compute/virtualMachineScaleSets/pool-a{rest}?{query}{and}{VERSION}"
    )
}

/// The body that creates the pool.
pub fn pool(capacity: u32) -> Value {
    json!({
        "location": "westeurope",
        "tags": {"owner": "tests"},
        "sku": {"name": "Standard_D4s_v5", "tier": "Standard", "capacity": capacity},
        "properties": {
            "orchestrationMode": "Uniform",
            "overprovision": false,
            "upgradePolicy": {"mode": "Manual"},
            "singlePlacementGroup": false,
            "virtualMachineProfile": {
                "osProfile": {
                    "computerNamePrefix": "pool-a",
                    "adminUsername": "capi",
                    "adminPassword": "hunter2-password",
                    "customData": "I2Nsb3VkLWNvbmZpZwo=",
                },
                "storageProfile": {
                    "imageReference": {"communityGalleryImageId": image_id("1.33.2")},
                    "osDisk": {"createOption": "FromImage",
                        "managedDisk": {"storageAccountType": "Premium_LRS"}},
                },
                "networkProfile": {"networkInterfaceConfigurations": [
                    {"name": "nic", "properties": {"primary": true}}]},
            },
        },
    })
}

pub fn image_id(version: &str) -> String {
    format!("/CommunityGalleries/sim/Images/ubuntu/Versions/{version}")
}

pub fn new_image(version: &str) -> Value {
    json!({"properties": {"virtualMachineProfile": {"storageProfile": {
        "imageReference": {"communityGalleryImageId": image_id(version)}}}}})
}

pub fn capacity(count: u32) -> Value {
    json!({"location": "westeurope", "sku": {"name": "Standard_D4s_v5", "capacity": count}})
}
