//! How are machines connected?
//!
//! The interfaces are CAPZ's, with two exceptions that the types we read of AzureCluster leave no
//! choice about: no back-end pool of an outbound load balancer and no IPv6 address is asked for.

use kube::ResourceExt;
use weir_api::azure::{AzureCluster, SUBNET_ROLE_CLUSTER, SUBNET_ROLE_NODE};
use weir_api::{AzureMachinePool, NetworkInterface, OrchestrationMode};
use weir_azure::vmss::{
    IpConfiguration, IpConfigurationProperties, NetworkInterfaceConfiguration,
    NetworkInterfaceProperties, NetworkProfile, SubResource,
};

use super::name::scale_set_name;
use super::{ModelError, error, resource_group};

/// The version of the network API that a Flexible set has to name.
const NETWORK_API_VERSION: &str = "2020-11-01";

/// The most addresses that an interface can have.
const ADDRESSES_MAX: u32 = 256;

/// Returns the network interfaces.
pub(super) fn network_profile(
    pool: &AzureMachinePool,
    azure_cluster: &AzureCluster,
) -> Result<NetworkProfile, ModelError> {
    let interfaces = interfaces(pool);
    // CAPZ lets the first interface's word stand for those that say nothing.
    let fallback = interfaces
        .first()
        .and_then(|first| first.accelerated_networking);
    let mut configurations = Vec::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let subnet = subnet_id(azure_cluster, interface.subnet_name.as_deref())?;
        configurations.push(NetworkInterfaceConfiguration {
            name: Some(format!("{}-nic-{index}", scale_set_name(pool)?)),
            properties: Some(NetworkInterfaceProperties {
                primary: (index == 0).then_some(true),
                enable_accelerated_networking: interface.accelerated_networking.or(fallback),
                enable_ip_forwarding: Some(true),
                network_security_group: None,
                ip_configurations: Some(addresses(interface, &subnet)?),
            }),
        });
    }
    let network_api_version = match pool.spec.orchestration_mode {
        OrchestrationMode::Uniform => None,
        OrchestrationMode::Flexible => Some(NETWORK_API_VERSION.to_owned()),
    };
    let network_interface_configurations = Some(configurations);
    Ok(NetworkProfile {
        network_api_version,
        network_interface_configurations,
    })
}

/// Returns the interfaces, be they given the one way or the deprecated other.
fn interfaces(pool: &AzureMachinePool) -> Vec<NetworkInterface> {
    let template = &pool.spec.template;
    let only = NetworkInterface {
        subnet_name: template.subnet_name.clone(),
        private_ip_configs: None,
        accelerated_networking: template.accelerated_networking,
    };
    match template.network_interfaces.as_slice() {
        [] => vec![only],
        given => {
            let mut given = given.to_vec();
            let first = &mut given[0];
            first.accelerated_networking =
                first.accelerated_networking.or(only.accelerated_networking);
            given
        }
    }
}

fn addresses(
    interface: &NetworkInterface,
    subnet: &str,
) -> Result<Vec<IpConfiguration>, ModelError> {
    let field = "spec.template.networkInterfaces.privateIPConfigs";
    // Absent and 0 both are 1, as CAPZ's webhook has it.
    let given = interface
        .private_ip_configs
        .filter(|count| *count != 0)
        .unwrap_or(1);
    let count = error::count(field, given, 1, ADDRESSES_MAX)?;
    let address = |index| IpConfiguration {
        name: Some(format!("ipConfig{index}")),
        properties: Some(IpConfigurationProperties {
            primary: (index == 0).then_some(true),
            private_ip_address_version: Some("IPv4".to_owned()),
            subnet: Some(SubResource {
                id: Some(subnet.to_owned()),
            }),
            ..IpConfigurationProperties::default()
        }),
    };
    Ok((0..count).map(address).collect())
}

/// Returns the ARM ID of a subnet: the named one, or the only one that is for nodes.
fn subnet_id(azure_cluster: &AzureCluster, name: Option<&str>) -> Result<String, ModelError> {
    let network = &azure_cluster.spec.network_spec;
    let subnets = network.subnets.as_deref().unwrap_or_default();
    let name = match name.filter(|name| !name.is_empty()) {
        Some(name) => name,
        None => only_node_subnet(azure_cluster)?,
    };
    let subscription = azure_cluster
        .spec
        .subscription_id
        .as_deref()
        .unwrap_or_default();
    let vnet = network.vnet.name.as_str();
    if subscription.is_empty() || vnet.is_empty() {
        let known = subnets.iter().find(|subnet| subnet.name == name);
        let id = known
            .and_then(|subnet| subnet.id.clone())
            .filter(|id| !id.is_empty());
        let cluster = azure_cluster.name_any();
        return id.ok_or(match subscription {
            "" => ModelError::NoSubscription { cluster },
            _ => ModelError::NoVnet { cluster },
        });
    }
    let of_vnet = network
        .vnet
        .resource_group
        .clone()
        .filter(|group| !group.is_empty());
    let group = of_vnet.unwrap_or_else(|| resource_group(azure_cluster));
    Ok(format!(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network\
         /virtualNetworks/{vnet}/subnets/{name}"
    ))
}

fn only_node_subnet(azure_cluster: &AzureCluster) -> Result<&str, ModelError> {
    let subnets = azure_cluster
        .spec
        .network_spec
        .subnets
        .as_deref()
        .unwrap_or_default();
    let is_for_nodes = |role: &str| role == SUBNET_ROLE_NODE || role == SUBNET_ROLE_CLUSTER;
    let names: Vec<&str> = subnets
        .iter()
        .filter(|subnet| is_for_nodes(&subnet.role) && !subnet.name.is_empty())
        .map(|subnet| subnet.name.as_str())
        .collect();
    let cluster = || azure_cluster.name_any();
    match names.as_slice() {
        [] => Err(ModelError::NoSubnet { cluster: cluster() }),
        [only] => Ok(only),
        several => Err(ModelError::WhichSubnet {
            cluster: cluster(),
            names: several.iter().map(|name| (*name).to_owned()).collect(),
        }),
    }
}
