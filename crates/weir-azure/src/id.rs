//! How are things in Azure named?

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names one scale set.
///
/// Displays as its ARM path. The order is by subscription, group and name, as given; ARM itself
/// compares all three without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSetId {
    /// Subscription, a GUID in text.
    pub subscription: String,
    /// Resource group.
    pub resource_group: String,
    /// Name of the scale set inside its group.
    pub name: String,
}

impl ScaleSetId {
    /// Puts the three parts together.
    pub fn new(
        subscription: impl Into<String>,
        resource_group: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            subscription: subscription.into(),
            resource_group: resource_group.into(),
            name: name.into(),
        }
    }

    /// Returns the provider ID that the node of a Uniform instance carries.
    ///
    /// Only the resource group is lower-cased; all else keeps its case.
    ///
    /// # Source
    /// cloud-provider-azure `pkg/provider/azure_wrap.go`, ConvertResourceGroupNameToLower.
    pub fn provider_id(&self, instance_id: &str) -> String {
        let lowered = Self {
            resource_group: self.resource_group.to_lowercase(),
            ..self.clone()
        };
        format!("azure://{lowered}/virtualMachines/{instance_id}")
    }
}

impl fmt::Display for ScaleSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subscription,
            resource_group,
            name,
        } = self;
        write!(
            f,
            "/subscriptions/{subscription}/resourceGroups/{resource_group}\
             /providers/Microsoft.Compute/virtualMachineScaleSets/{name}"
        )
    }
}

/// A text is not the ARM path of a scale set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the ARM path of a scale set")]
pub struct ParseIdError(String);

impl FromStr for ScaleSetId {
    type Err = ParseIdError;

    /// Reads an ARM path; fixed segments match in any case, as they do in ARM.
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let segments: Vec<&str> = text.split('/').collect();
        let ["", a, subscription, b, group, c, d, e, name] = segments.as_slice() else {
            return Err(ParseIdError(text.to_owned()));
        };
        let fixed = format!("{a}/{b}/{c}/{d}/{e}");
        let wanted =
            "subscriptions/resourceGroups/providers/Microsoft.Compute/virtualMachineScaleSets";
        let is_named = ![subscription, group, name]
            .iter()
            .any(|part| part.is_empty());
        if fixed.eq_ignore_ascii_case(wanted) && is_named {
            Ok(Self::new(*subscription, *group, *name))
        } else {
            Err(ParseIdError(text.to_owned()))
        }
    }
}

/// The version of a resource, as ARM wrote it; compared and sent back verbatim, quotes included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ETag(String);

impl ETag {
    /// Takes an etag as it stands in a header or body.
    pub fn new(verbatim: impl Into<String>) -> Self {
        Self(verbatim.into())
    }

    /// Returns the text as ARM wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Escapes one path segment or query value: everything but RFC 3986's unreserved characters.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            // Legal in a path segment, and usual in the names of resource groups.
            b'(' | b')' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arm_paths_are_read_in_any_case_and_written_in_one() {
        let id: ScaleSetId = "/Subscriptions/s/resourcegroups/RG-a/providers/microsoft.compute\
                              /virtualmachinescalesets/pool"
            .parse()
            .unwrap();
        assert_eq!(
            id.to_string(),
            "/subscriptions/s/resourceGroups/RG-a/providers/Microsoft.Compute\
             /virtualMachineScaleSets/pool"
        );
        assert_eq!(id.to_string().parse::<ScaleSetId>().unwrap(), id);
    }

    #[test]
    fn other_paths_are_refused() {
        let rows = [
            "",
            "pool",
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/x",
            "/subscriptions//resourceGroups/g/providers/Microsoft.Compute\
             /virtualMachineScaleSets/x",
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute\
             /virtualMachineScaleSets/x/virtualMachines/0",
        ];
        for text in rows {
            assert!(text.parse::<ScaleSetId>().is_err(), "{text}");
        }
    }

    #[test]
    fn provider_id_lowers_the_resource_group_and_nothing_else() {
        let id = ScaleSetId::new("SUB", "My-Group", "Pool");
        assert_eq!(
            id.provider_id("3"),
            "azure:///subscriptions/SUB/resourceGroups/my-group/providers/Microsoft.Compute\
             /virtualMachineScaleSets/Pool/virtualMachines/3"
        );
    }

    #[test]
    fn a_name_cannot_leave_its_path_segment() {
        assert_eq!(escape("a/../b?c#d e"), "a%2F..%2Fb%3Fc%23d%20e");
        assert_eq!(escape("group_1.(x)-~"), "group_1.(x)-~");
    }
}
