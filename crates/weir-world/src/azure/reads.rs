//! What does a GET answer?

use http::StatusCode;
use serde_json::{Value, json};

use super::Azure;
use super::answer::{Answer, Answered, method_not_allowed, no_such_path};
use super::call::{Call, ListScope, Route, SetPath};
use super::identity::{instance_discovery, metadata_endpoints, open_id_configuration};
use super::operation;
use super::options::VmSize;
use super::scale_set::{Power, vm_instance_view};

impl Azure {
    pub(super) fn read(&mut self, call: &Call<'_>) -> Answered {
        let base = call.base.as_str();
        match &call.route {
            Route::MetadataEndpoints => Ok(Answer::ok(metadata_endpoints(base))),
            Route::InstanceDiscovery => {
                Ok(Answer::ok(instance_discovery(base, &self.options.tenant)))
            }
            Route::OpenIdConfiguration { tenant } => {
                Ok(Answer::ok(open_id_configuration(base, tenant)))
            }
            Route::IdentityToken => self.identity_token(call),
            Route::Tenants => Ok(self.tenants()),
            Route::Subscriptions => Ok(self.subscriptions()),
            Route::Subscription(id) => Ok(Answer::ok(self.subscription(id))),
            Route::Group { subscription, name } => self.group(subscription, name),
            Route::Skus => Ok(self.skus(call)),
            Route::Usages { location } => Ok(self.usages(location)),
            Route::ImageVersions { rest } => self.image_versions(call, rest),
            Route::Operation { guid } => match self.operations.get(guid) {
                Some(operation) => operation.poll(call, self.options.retry_after_seconds),
                None => Err(operation::unknown(guid)),
            },
            Route::Sets {
                subscription,
                scope,
            } => self.list_sets(subscription, scope),
            Route::Set(path) => {
                let set = self.set(path)?;
                let view = set.view(call.expands("userData"), self.now);
                Ok(Answer::ok(view).with("etag", set.etag()))
            }
            Route::SetPart(path, part) => self.set_part(path, part),
            Route::Vms(path) => self.list_vms(call, path),
            Route::Vm(path, name) => {
                let (set, id) = self.readable_vm(path, name)?;
                let expanded = call.expands("instanceView");
                let instance = set.instances.get(&id).ok_or_else(no_such_path)?;
                let view = set.vm_view(instance, &self.options, expanded);
                Ok(Answer::ok(view).with("etag", set.etag()))
            }
            Route::VmPart(path, name, part) if part == "instanceview" => {
                let (set, id) = self.readable_vm(path, name)?;
                let instance = set.instances.get(&id).ok_or_else(no_such_path)?;
                Ok(Answer::ok(vm_instance_view(instance)))
            }
            Route::Token { .. } => Err(method_not_allowed()),
            Route::VmPart(..) | Route::Unknown => Err(no_such_path()),
        }
    }

    fn set_part(&self, path: &SetPath, part: &str) -> Answered {
        let set = self.set(path)?;
        match part {
            "instanceview" => Ok(Answer::ok(set.instance_view(self.now))),
            "skus" => Ok(Answer::ok(json!({"value": [{
                "resourceType": "Microsoft.Compute/virtualMachineScaleSets",
                "sku": {"name": set.size(), "tier": "Standard"},
                "capacity": {"minimum": 0, "maximum": 100, "defaultCapacity": 1,
                    "scaleType": "Automatic"},
            }]}))),
            _ => Err(no_such_path()),
        }
    }

    fn list_sets(&self, subscription: &str, scope: &ListScope) -> Answered {
        if let ListScope::Group(group) = scope {
            self.group_exists(group)?;
        }
        let is_in_scope = |set: &&super::ScaleSet| {
            set.subscription.eq_ignore_ascii_case(subscription)
                && match scope {
                    ListScope::Group(group) => set.group.eq_ignore_ascii_case(group),
                    ListScope::Location(location) => set.location().eq_ignore_ascii_case(location),
                    ListScope::Subscription => true,
                }
        };
        let sets = self.sets.values().filter(is_in_scope);
        let views: Vec<Value> = sets.map(|set| set.view(false, self.now)).collect();
        Ok(Answer::ok(json!({"value": views})))
    }

    /// One page of instances. The next page begins after the last id of this one, so that
    /// instances which come or go between pages move nothing.
    fn list_vms(&self, call: &Call<'_>, path: &SetPath) -> Answered {
        let set = self.set(path)?;
        let after = call.parameter("$skiptoken");
        let after = after.and_then(|token| u64::from_str_radix(token, 16).ok());
        let filter = call.parameter("$filter").unwrap_or_default();
        let filter = filter.to_ascii_lowercase();
        let matches = |instance: &&super::scale_set::Instance| {
            let is_latest = instance.model == set.vm_model;
            let wants_latest = |word: &str| {
                let term = format!("properties/latestmodelapplied eq {word}");
                !filter.contains(&term) || is_latest == (word == "true")
            };
            let wants_power = filter.contains("startswith(instanceview/statuses/code");
            wants_latest("true")
                && wants_latest("false")
                && (!wants_power || instance.power != Power::None)
        };
        let mut rest = set
            .instances
            .values()
            .filter(|instance| instance.listed_from <= self.now)
            .filter(|instance| after.is_none_or(|after| u64::from(instance.id) > after ^ MASK))
            .filter(matches);
        let expanded = call.expands("instanceView")
            || call
                .parameter("$select")
                .is_some_and(|select| select.to_ascii_lowercase().contains("instanceview"));
        let page: Vec<_> = rest.by_ref().take(self.options.page_size.max(1)).collect();
        let more = rest.next().is_some();
        let views: Vec<Value> = page
            .iter()
            .map(|instance| set.vm_view(instance, &self.options, expanded))
            .collect();
        let mut body = json!({"value": views});
        if let Some(last) = page.last().filter(|_| more) {
            body["nextLink"] = json!(next_link(call, u64::from(last.id)));
        }
        Ok(Answer::ok(body))
    }

    fn tenants(&self) -> Answer {
        let tenant = &self.options.tenant;
        Answer::ok(json!({"value": [{
            "id": format!("/tenants/{tenant}"), "tenantId": tenant,
            "displayName": "Sim", "tenantCategory": "Home"}]}))
    }

    fn subscriptions(&self) -> Answer {
        let ids = self.options.subscriptions.iter();
        let rows: Vec<Value> = ids.map(|id| self.subscription(id)).collect();
        Answer::ok(json!({"value": rows}))
    }

    fn subscription(&self, id: &str) -> Value {
        json!({
            "id": format!("/subscriptions/{id}"),
            "subscriptionId": id,
            "tenantId": self.options.tenant,
            "displayName": "Sim",
            "state": "Enabled",
        })
    }

    fn group(&self, subscription: &str, name: &str) -> Answered {
        self.group_exists(name)?;
        Ok(Answer::ok(json!({
            "id": format!("/subscriptions/{subscription}/resourceGroups/{name}"),
            "name": name,
            "type": "Microsoft.Resources/resourceGroups",
            "location": self.options.location,
            "properties": {"provisioningState": "Succeeded"},
        })))
    }

    fn skus(&self, call: &Call<'_>) -> Answer {
        let filter = call.parameter("$filter").unwrap_or_default();
        let location = filter.split('\'').nth(1).unwrap_or(&self.options.location);
        let sizes = self.options.vm_sizes.iter();
        let rows: Vec<Value> = sizes.map(|size| self.sku(size, location)).collect();
        Answer::ok(json!({"value": rows}))
    }

    fn sku(&self, size: &VmSize, location: &str) -> Value {
        let short = size.name.trim_start_matches("Standard_");
        // Azure writes every capability as text.
        let capabilities = [
            ("vCPUs", size.vcpus.to_string()),
            ("MemoryGB", size.memory_gib.to_string()),
            ("CpuArchitectureType", size.architecture.clone()),
            ("MaxResourceVolumeMB", (size.cache_gib * 1_024).to_string()),
            (
                "CachedDiskBytes",
                (u64::from(size.cache_gib) << 30).to_string(),
            ),
            ("PremiumIO", "True".to_owned()),
            ("HyperVGenerations", "V1,V2".to_owned()),
            ("AcceleratedNetworkingEnabled", "True".to_owned()),
            ("LowPriorityCapable", "True".to_owned()),
            (
                "EphemeralOSDiskSupported",
                if size.cache_gib > 0 { "True" } else { "False" }.to_owned(),
            ),
        ];
        let capabilities: Vec<Value> = capabilities
            .into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let restrictions = if self.options.sizes_unavailable.contains(&size.name) {
            json!([{"type": "Location", "values": [location],
                "restrictionInfo": {"locations": [location]},
                "reasonCode": "NotAvailableForSubscription"}])
        } else {
            json!([])
        };
        json!({
            "resourceType": "virtualMachines",
            "name": size.name,
            "tier": "Standard",
            "size": short,
            "family": size.family,
            "locations": [location],
            "locationInfo": [
                {"location": location, "zones": ["1", "2", "3"], "zoneDetails": []},
            ],
            "capabilities": capabilities,
            "restrictions": restrictions,
        })
    }

    fn usages(&self, location: &str) -> Answer {
        let sets = self.sets.values();
        let sets = sets.filter(|set| set.location().eq_ignore_ascii_case(location));
        let (mut cores, mut instances) = (0, 0);
        for set in sets {
            let capacity = u64::from(set.capacity());
            cores += capacity * self.vcpus(set.size());
            instances += capacity;
        }
        let row = |name: &str, used: u64, limit: Option<u32>| {
            json!({"unit": "Count", "currentValue": used,
                "limit": limit.map_or(100_000, u64::from),
                "name": {"value": name, "localizedValue": name}})
        };
        let quota = self.options.quota;
        Answer::ok(json!({"value": [
            row("cores", cores, quota.cores),
            row("virtualMachines", instances, quota.instances),
        ]}))
    }

    /// Marketplace versions come as a bare list, gallery versions as `{"value": …}`.
    fn image_versions(&self, call: &Call<'_>, rest: &[String]) -> Answered {
        let row = |version: &str| {
            let id = call.path.trim_end_matches('/').trim_end_matches(version);
            json!({"name": version, "location": self.options.location,
                "id": format!("{}/{version}", id.trim_end_matches('/')),
                "properties": {"hyperVGeneration": "V2",
                    "osDiskImage": {"operatingSystem": "Linux", "sizeInGb": 30}}})
        };
        let known = &self.options.image_versions;
        let last = rest.last().map(String::as_str).unwrap_or_default();
        if !last.eq_ignore_ascii_case("versions") {
            let found = known.iter().find(|version| *version == last);
            return match found {
                Some(version) => Ok(Answer::ok(row(version))),
                None => Err(Answer::error(
                    StatusCode::NOT_FOUND,
                    "ImageVersionNotFound",
                    &format!("The image version {last} was not found."),
                )),
            };
        }
        let mut versions: Vec<&String> = known.iter().collect();
        let order = call.parameter("$orderby").unwrap_or_default();
        if order.to_ascii_lowercase().ends_with("desc") {
            versions.reverse();
        }
        if let Some(top) = call.parameter("$top").and_then(|top| top.parse().ok()) {
            versions.truncate(top);
        }
        let rows: Vec<Value> = versions.into_iter().map(|version| row(version)).collect();
        let is_marketplace = rest
            .iter()
            .any(|part| part.eq_ignore_ascii_case("artifacttypes"));
        Ok(Answer::ok(if is_marketplace {
            json!(rows)
        } else {
            json!({"value": rows})
        }))
    }
}

/// Keeps clients from reading ids in page tokens.
const MASK: u64 = 0x5ca1_ab1e_0000_0000;

/// Returns the absolute URL of the page after an id: the same request with a token.
fn next_link(call: &Call<'_>, last_id: u64) -> String {
    let query: Vec<&str> = call
        .raw_query
        .split('&')
        .filter(|part| !part.to_ascii_lowercase().contains("skiptoken="))
        .collect();
    let query = query.join("&");
    let token = last_id ^ MASK;
    format!("{}{}?{query}&%24skiptoken={token:x}", call.base, call.path)
}
