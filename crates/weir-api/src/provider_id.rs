//! By what name do a Node, a Machine and an Azure machine know that they are one?
//!
//! The name is `azure://` and the ARM ID, with **the resource group, and nothing else, in lower
//! case**. Core Cluster API compares these names letter by letter, and cloud-provider-azure writes
//! them on the Nodes; so ours have to come out as its do. ARM itself ignores case, and gives the
//! same ID in different spellings in different answers: compare with [`is_same`].
//!
//! # Source
//! cloud-provider-azure, pkg/provider/azure_wrap.go, `ConvertResourceGroupNameToLower`.

use std::fmt;
use std::str::FromStr;

/// What a provider ID begins with, before the ARM ID.
pub const PREFIX: &str = "azure://";

/// A name could not be read as the provider ID or the ARM ID of a machine or scale set.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProviderIdError {
    /// It does not begin with `azure://`.
    #[error("{id:?} does not begin with azure://")]
    Prefix {
        /// The name.
        id: String,
    },
    /// A segment of the ARM ID is missing or is another one.
    #[error("{id:?} has no segment {segment} where the ARM ID of a machine has it")]
    Segment {
        /// The name.
        id: String,
        /// The segment, such as `resourceGroups`.
        segment: &'static str,
    },
    /// A segment of the ARM ID has no value.
    #[error("{id:?} has nothing after {segment}")]
    Value {
        /// The name.
        id: String,
        /// The segment, such as `resourceGroups`.
        segment: &'static str,
    },
    /// It is the ID of something else, or something follows.
    #[error("{id:?} is neither of a scale set nor of a machine")]
    Kind {
        /// The name.
        id: String,
    },
}

/// A scale set or a machine in Azure, as its ID names it.
///
/// The parts are kept as they are spelt. `==` compares spellings; [`is_same`] ignores case.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProviderId {
    /// ID of the subscription.
    pub subscription: String,
    /// Name of the resource group.
    pub resource_group: String,
    /// What it is.
    pub resource: Resource,
}

/// What a [`ProviderId`] names.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Resource {
    /// A scale set.
    ScaleSet {
        /// Name of the scale set.
        name: String,
    },
    /// An instance of a scale set in Uniform mode.
    Instance {
        /// Name of the scale set.
        scale_set: String,
        /// ID within the scale set, a number.
        instance_id: String,
    },
    /// A virtual machine by itself, as a scale set in Flexible mode has them.
    VirtualMachine {
        /// Name of the machine.
        name: String,
    },
}

impl ProviderId {
    /// Reads an ARM ID, as ARM gives it: beginning with `/subscriptions/`, in any case.
    ///
    /// # Errors
    /// When it isn't the ID of a scale set, of an instance of one, or of a virtual machine.
    pub fn from_arm_id(arm_id: &str) -> Result<Self, ProviderIdError> {
        parse(arm_id, arm_id)
    }

    /// Returns the ARM ID, with the parts spelt as they are and the other words as ARM spells them.
    pub fn arm_id(&self) -> String {
        let Self {
            subscription,
            resource_group,
            resource,
        } = self;
        let compute = format!(
            "/subscriptions/{subscription}/resourceGroups/{resource_group}\
             /providers/Microsoft.Compute"
        );
        match resource {
            Resource::ScaleSet { name } => format!("{compute}/virtualMachineScaleSets/{name}"),
            Resource::Instance {
                scale_set,
                instance_id,
            } => format!(
                "{compute}/virtualMachineScaleSets/{scale_set}/virtualMachines/{instance_id}"
            ),
            Resource::VirtualMachine { name } => format!("{compute}/virtualMachines/{name}"),
        }
    }

    /// Returns the ID within the scale set, if it names an instance of one.
    pub fn instance_id(&self) -> Option<&str> {
        match &self.resource {
            Resource::Instance { instance_id, .. } => Some(instance_id),
            Resource::ScaleSet { .. } | Resource::VirtualMachine { .. } => None,
        }
    }
}

impl fmt::Display for ProviderId {
    /// Writes the provider ID, as cloud-provider-azure writes it on a Node.
    ///
    /// That replaces the first place where the resource group's name stands in the ID, wherever it
    /// is; with a group called `Groups` the segment before it is what gets lowered. We do the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = format!("{PREFIX}{}", self.arm_id());
        let group = self.resource_group.as_str();
        f.write_str(&id.replacen(group, &group.to_lowercase(), 1))
    }
}

impl FromStr for ProviderId {
    type Err = ProviderIdError;

    /// Reads a provider ID, in any case.
    fn from_str(id: &str) -> Result<Self, ProviderIdError> {
        let arm_id = id
            .get(..PREFIX.len())
            .filter(|start| start.eq_ignore_ascii_case(PREFIX))
            .and_then(|_| id.get(PREFIX.len()..))
            .ok_or_else(|| ProviderIdError::Prefix { id: id.to_owned() })?;
        parse(id, arm_id)
    }
}

/// Returns the provider ID that a machine or scale set with this ARM ID has.
///
/// # Errors
/// As [`ProviderId::from_arm_id`].
pub fn from_arm_id(arm_id: &str) -> Result<String, ProviderIdError> {
    Ok(ProviderId::from_arm_id(arm_id)?.to_string())
}

/// Whether two IDs, both provider IDs or both ARM IDs, name the same thing.
pub fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

fn parse(id: &str, arm_id: &str) -> Result<ProviderId, ProviderIdError> {
    let mut rest = Segments {
        id,
        rest: arm_id.split('/'),
    };
    // An ARM ID begins with a slash, so its first segment is empty.
    rest.expect("", "/subscriptions")?;
    let subscription = rest.value("subscriptions")?;
    let resource_group = rest.value("resourceGroups")?;
    rest.expect("providers", "providers")?;
    rest.expect("Microsoft.Compute", "Microsoft.Compute")?;
    let kind = || ProviderIdError::Kind { id: id.to_owned() };
    let resource = match rest.rest.next().ok_or_else(kind)? {
        word if word.eq_ignore_ascii_case("virtualMachines") => Resource::VirtualMachine {
            name: rest.after("virtualMachines")?,
        },
        word if word.eq_ignore_ascii_case("virtualMachineScaleSets") => {
            let scale_set = rest.after("virtualMachineScaleSets")?;
            match rest.rest.next() {
                None => Resource::ScaleSet { name: scale_set },
                Some(word) if word.eq_ignore_ascii_case("virtualMachines") => Resource::Instance {
                    scale_set,
                    instance_id: rest.after("virtualMachines")?,
                },
                Some(_) => return Err(kind()),
            }
        }
        _ => return Err(kind()),
    };
    match rest.rest.next() {
        None => Ok(ProviderId {
            subscription,
            resource_group,
            resource,
        }),
        Some(_) => Err(kind()),
    }
}

/// The segments of an ARM ID that are still to be read.
struct Segments<'a> {
    id: &'a str,
    rest: std::str::Split<'a, char>,
}

impl Segments<'_> {
    fn expect(&mut self, word: &str, segment: &'static str) -> Result<(), ProviderIdError> {
        match self.rest.next() {
            Some(found) if found.eq_ignore_ascii_case(word) => Ok(()),
            _ => Err(ProviderIdError::Segment {
                id: self.id.to_owned(),
                segment,
            }),
        }
    }

    fn value(&mut self, segment: &'static str) -> Result<String, ProviderIdError> {
        self.expect(segment, segment)?;
        self.after(segment)
    }

    fn after(&mut self, segment: &'static str) -> Result<String, ProviderIdError> {
        match self.rest.next() {
            Some(value) if !value.is_empty() => Ok(value.to_owned()),
            _ => Err(ProviderIdError::Value {
                id: self.id.to_owned(),
                segment,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTE: &str = "/subscriptions/0B1F-AA/resourceGroups/My-RG/providers/Microsoft.Compute";

    #[test]
    fn only_the_resource_group_is_lowered() {
        let lowered = "azure:///subscriptions/0B1F-AA/resourceGroups/my-rg/providers/\
                       Microsoft.Compute";
        for resource in [
            "virtualMachineScaleSets/Pool-MP-0",
            "virtualMachineScaleSets/Pool-MP-0/virtualMachines/17",
            "virtualMachines/Pool-MP-0_A1b2c3d4",
        ] {
            assert_eq!(
                from_arm_id(&format!("{COMPUTE}/{resource}")),
                Ok(format!("{lowered}/{resource}")),
                "{resource}",
            );
        }
    }

    #[test]
    fn a_group_named_like_the_segment_before_it_comes_out_as_on_the_node() {
        let id = "/subscriptions/s/resourceGroups/Groups/providers/Microsoft.Compute\
                  /virtualMachines/m";
        let on_node = "azure:///subscriptions/s/resourcegroups/Groups/providers/\
                       Microsoft.Compute/virtualMachines/m";
        assert_eq!(from_arm_id(id).as_deref(), Ok(on_node));
    }

    #[test]
    fn what_is_written_reads_back() {
        let id: ProviderId = "azure:///subscriptions/s/resourceGroups/rg/providers/\
                              Microsoft.Compute/virtualMachineScaleSets/v/virtualMachines/3"
            .parse()
            .unwrap();
        assert_eq!(id.instance_id(), Some("3"));
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        assert_eq!(ProviderId::from_arm_id(&id.arm_id()), Ok(id));
    }

    #[test]
    fn words_of_arm_are_read_in_any_case() {
        let id = format!("{COMPUTE}/virtualMachineScaleSets/v/virtualMachines/3");
        let upper = ProviderId::from_arm_id(&id.to_uppercase()).unwrap();
        assert_eq!(upper.resource_group, "MY-RG");
        assert!(is_same(&upper.to_string(), &from_arm_id(&id).unwrap()));
        assert!(!is_same(&id, &id.replace("/3", "/4")));
    }

    #[test]
    fn anything_else_is_refused_with_what_is_wrong() {
        let compute = format!("{PREFIX}{COMPUTE}");
        let rows = [
            ("".to_owned(), "does not begin with azure://"),
            (
                "aws:///eu-west-1a/i-0abc".to_owned(),
                "does not begin with azure://",
            ),
            ("azure://".to_owned(), "no segment subscriptions"),
            (
                "azure://subscriptions/s".to_owned(),
                "no segment /subscriptions",
            ),
            (
                "azure:///subscriptions/s/groups/g".to_owned(),
                "no segment resourceGroups",
            ),
            (
                "azure:///subscriptions//resourceGroups/g".to_owned(),
                "nothing after subscriptions",
            ),
            (compute.clone(), "neither of a scale set nor of a machine"),
            (
                format!("{compute}/disks/d"),
                "neither of a scale set nor of a machine",
            ),
            (
                format!("{compute}/virtualMachines/"),
                "nothing after virtualMachines",
            ),
            (
                format!("{compute}/virtualMachines/m/extensions/e"),
                "neither of a scale set",
            ),
            (
                format!("{compute}/virtualMachineScaleSets/v/"),
                "neither of a scale set",
            ),
        ];
        for (id, expected) in rows {
            let error = id.parse::<ProviderId>().unwrap_err().to_string();
            assert!(error.contains(expected), "{id:?}: {error}");
        }
    }
}
