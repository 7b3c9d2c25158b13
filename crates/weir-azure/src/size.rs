//! Which VM sizes can be had where?

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// A VM size as offered to one subscription in one location.
///
/// # Source
/// ARM `Microsoft.Compute/skus`, api-version 2021-07-01:
/// <https://learn.microsoft.com/rest/api/compute/resource-skus/list>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSize {
    /// Name such as `Standard_D4s_v5`.
    pub name: String,
    /// Quota family such as `standardDSv5Family`.
    pub family: Option<String>,
    /// Zones where the subscription may use it; empty when the location has none.
    pub zones: BTreeSet<String>,
    /// Whether the subscription is barred from it in the whole location.
    pub restriction: Option<String>,
    /// Capabilities by name; ARM gives every value as text.
    pub capabilities: BTreeMap<String, String>,
}

impl VmSize {
    /// Returns the number of virtual CPUs, if stated.
    pub fn vcpus(&self) -> Option<u32> {
        self.capabilities.get("vCPUs")?.parse().ok()
    }

    /// Says whether a capability is stated to be `True`.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities
            .get(capability)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sku {
    resource_type: Option<String>,
    name: Option<String>,
    family: Option<String>,
    #[serde(default)]
    location_info: Vec<LocationInfo>,
    #[serde(default)]
    capabilities: Vec<Capability>,
    #[serde(default)]
    restrictions: Vec<Restriction>,
}

#[derive(Deserialize)]
struct LocationInfo {
    #[serde(default)]
    zones: Vec<String>,
}

#[derive(Deserialize)]
struct Capability {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Restriction {
    #[serde(rename = "type")]
    scope: Option<String>,
    reason_code: Option<String>,
    restriction_info: Option<RestrictionInfo>,
}

#[derive(Deserialize)]
struct RestrictionInfo {
    #[serde(default)]
    zones: Vec<String>,
}

impl Sku {
    /// Returns the VM size, or nothing if this row is about disks, hosts or the like.
    pub(crate) fn into_vm_size(self) -> Option<VmSize> {
        if !self.resource_type?.eq_ignore_ascii_case("virtualMachines") {
            return None;
        }
        let mut zones: BTreeSet<String> = self
            .location_info
            .into_iter()
            .flat_map(|info| info.zones)
            .collect();
        let mut restriction = None;
        for row in self.restrictions {
            let is_zonal = row
                .scope
                .is_some_and(|scope| scope.eq_ignore_ascii_case("zone"));
            if is_zonal {
                for zone in row.restriction_info.into_iter().flat_map(|info| info.zones) {
                    zones.remove(&zone);
                }
            } else {
                restriction = Some(row.reason_code.unwrap_or_else(|| "restricted".to_owned()));
            }
        }
        let capabilities = self
            .capabilities
            .into_iter()
            .map(|entry| (entry.name, entry.value))
            .collect();
        Some(VmSize {
            name: self.name?,
            family: self.family,
            zones,
            restriction,
            capabilities,
        })
    }
}
