//! What can be asked of Azure? One typed method per verb Weir uses.
//!
//! Every method sends one request (a list: one per page) and returns once ARM has answered it. A
//! write that ARM accepted is under way, not done; see `operation.rs`. How a request travels and
//! when it is repeated is in `exchange.rs`.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderValue, Method, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::error::{ArmError, ErrorKind, header};
use crate::exchange::{Ask, Meter, Verb};
use crate::id::{ETag, ScaleSetId, escape};
use crate::operation::Operation;
use crate::size::{Sku, VmSize};
use crate::vmss::{Instance, ProvisioningState, Reimage, ScaleSet, ScaleSetPatch};
use crate::wire::Wire;

/// The version of the compute API that is spoken.
///
/// It is the newest one of which recorded traffic was at hand (Azure CLI tests), it has etags on
/// scale sets, and every field of `vmss.rs` is in it. A newer one adds nothing that Weir uses.
const COMPUTE_API: &str = "2024-11-01";

/// The version of the SKU list, the newest there is.
const SKUS_API: &str = "2021-07-01";

/// The version of the resource group API that the Azure CLI uses.
const GROUPS_API: &str = "2024-11-01";

/// How many pages of a list are read at most.
///
/// A scale set has at most 1,000 instances and a page about 120; the SKU list of a location is a
/// few pages. A hundred is a list that runs in a circle.
const PAGES_MAX: usize = 100;

/// A typed client for the part of ARM that Weir uses.
///
/// Cheap to clone; clones share the wire, the cached token and the meter.
#[derive(Clone)]
pub struct Arm {
    pub(crate) wire: Wire,
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: Credential,
    pub(crate) meter: Option<Meter>,
}

/// What a write may find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: the scale set must not exist.
    Absent,
    /// The scale set at this version.
    Matches(ETag),
}

/// Whether Azure may cut corners when deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Let machines shut down and terminate notifications run their course.
    Graceful,
    /// Do not wait for machines to shut down.
    Forced,
}

/// A write that ARM accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted<T> {
    /// The resource as ARM has it, server-filled fields included.
    pub resource: T,
    /// What is still under way; `None` if it was done at once.
    pub operation: Option<Operation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
struct Page<T> {
    value: Vec<T>,
    next_link: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InstanceIds<'a> {
    instance_ids: &'a [String],
}

impl Arm {
    /// Puts a client together.
    pub fn new(wire: Wire, endpoint: Endpoint, credential: Credential) -> Self {
        Self {
            wire,
            endpoint,
            credential,
            meter: None,
        }
    }

    /// Returns a client that reports every attempt to `meter`, in place of any meter it had.
    #[must_use]
    pub fn with_meter(self, meter: Meter) -> Self {
        Self {
            meter: Some(meter),
            ..self
        }
    }

    /// Reads a scale set; `None` if the group has none of this name.
    ///
    /// # Errors
    /// A missing group is [`ErrorKind::ResourceGroupNotFound`].
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/get>
    pub async fn get_scale_set(&self, id: &ScaleSetId) -> Result<Option<ScaleSet>, ArmError> {
        let ask = self.ask_set(Verb::GetScaleSet, id, Method::GET, "", "");
        match self.exchange(&ask).await {
            Ok(answer) => decode_scale_set(&ask, &answer).map(Some),
            Err(error) => absent_is_none(error),
        }
    }

    /// Creates a scale set, or changes an existing one by merging `body` into it.
    ///
    /// ARM treats what `body` leaves out as unchanged. Arrays replace as a whole.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/create-or-update>
    pub async fn put_scale_set(
        &self,
        id: &ScaleSetId,
        body: &ScaleSet,
        on: Precondition,
    ) -> Result<Accepted<ScaleSet>, ArmError> {
        let mut ask = self
            .ask_set(Verb::PutScaleSet, id, Method::PUT, "", "")
            .with_body(body)?;
        ask.secrets = body.secrets();
        match on {
            Precondition::Absent => {
                ask.headers
                    .push((IF_NONE_MATCH, HeaderValue::from_static("*")));
            }
            Precondition::Matches(etag) => require(&mut ask, &etag)?,
        }
        self.write_scale_set(ask).await
    }

    /// Changes what `body` names and leaves the rest of the model alone.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/update>
    pub async fn patch_scale_set(
        &self,
        id: &ScaleSetId,
        body: &ScaleSetPatch,
        etag: &ETag,
    ) -> Result<Accepted<ScaleSet>, ArmError> {
        let mut ask = self
            .ask_set(Verb::PatchScaleSet, id, Method::PATCH, "", "")
            .with_body(body)?;
        ask.secrets = body.secrets();
        require(&mut ask, etag)?;
        self.write_scale_set(ask).await
    }

    /// Deletes a scale set with its instances; `None` if it, or its group, is already gone.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/delete>
    pub async fn delete_scale_set(
        &self,
        id: &ScaleSetId,
        deletion: Deletion,
    ) -> Result<Option<Operation>, ArmError> {
        let force = force_query(deletion);
        let ask = self.ask_set(Verb::DeleteScaleSet, id, Method::DELETE, "", force);
        self.act(&ask).await.or_else(gone_is_none)
    }

    /// Lists all instances of a Uniform scale set with their instance view.
    ///
    /// All pages, sorted by instance id. An instance that moved between pages while they were read
    /// is in the list once, as it was read last.
    ///
    /// # Errors
    /// A missing scale set is [`ErrorKind::NotFound`].
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-set-vms/list>
    pub async fn list_instances(&self, id: &ScaleSetId) -> Result<Vec<Instance>, ArmError> {
        let expand = "$expand=instanceView&";
        let ask = self.ask_set(
            Verb::ListInstances,
            id,
            Method::GET,
            "/virtualMachines",
            expand,
        );
        let read: Vec<Instance> = self.pages(ask).await?;
        let mut by_number = BTreeMap::new();
        for instance in read {
            // Collected into a map, the last reading of an instance is the one that stays.
            by_number.insert(instance.order_key(), instance);
        }
        Ok(by_number.into_values().collect())
    }

    /// Reads one instance with its instance view; `None` if it, or the scale set, is gone.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-set-vms/get>
    pub async fn get_instance(
        &self,
        id: &ScaleSetId,
        instance_id: &str,
    ) -> Result<Option<Instance>, ArmError> {
        let expand = "$expand=instanceView&";
        let ask = self.ask_instance(Verb::GetInstance, id, instance_id, Method::GET, expand);
        match self.exchange(&ask).await {
            Ok(answer) => ask.decode(answer.body()).map(Some),
            Err(error) => absent_is_none(error),
        }
    }

    /// Deletes one instance and lowers the scale set's capacity by one; `None` if it is gone.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-set-vms/delete>
    pub async fn delete_instance(
        &self,
        id: &ScaleSetId,
        instance_id: &str,
        deletion: Deletion,
    ) -> Result<Option<Operation>, ArmError> {
        let force = force_query(deletion);
        let ask = self.ask_instance(Verb::DeleteInstance, id, instance_id, Method::DELETE, force);
        self.act(&ask).await.or_else(gone_is_none)
    }

    /// Deletes instances and lowers the scale set's capacity by their number.
    ///
    /// `None` means that ARM did it at once.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownInstance`] if one of the ids is unknown; then none is deleted.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/delete-instances>
    pub async fn delete_instances(
        &self,
        id: &ScaleSetId,
        instance_ids: &[String],
        deletion: Deletion,
    ) -> Result<Option<Operation>, ArmError> {
        let force = force_query(deletion);
        let ask = self.ask_set(Verb::DeleteInstances, id, Method::POST, "/delete", force);
        self.act_on(ask, instance_ids).await
    }

    /// Moves instances to the current model, restarting or reimaging them where that needs it.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownInstance`] if one of the ids is unknown.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/update-instances>
    pub async fn update_instances(
        &self,
        id: &ScaleSetId,
        instance_ids: &[String],
    ) -> Result<Option<Operation>, ArmError> {
        let ask = self.ask_set(
            Verb::UpdateInstances,
            id,
            Method::POST,
            "/manualupgrade",
            "",
        );
        self.act_on(ask, instance_ids).await
    }

    /// Gives instances a new OS disk; id and addresses stay.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownInstance`] if one of the ids is unknown.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/reimage>
    pub async fn reimage_instances(
        &self,
        id: &ScaleSetId,
        reimage: &Reimage,
    ) -> Result<Option<Operation>, ArmError> {
        let mut ask = self.ask_set(Verb::ReimageInstances, id, Method::POST, "/reimage", "");
        refuse_no_ids(&ask, &reimage.instance_ids)?;
        ask.secrets = reimage.secrets();
        self.act(&ask.with_body(reimage)?).await
    }

    /// Says whether a resource group exists, even if it is on its way out.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/resources/resource-groups/get>
    pub async fn resource_group_exists(
        &self,
        subscription: &str,
        resource_group: &str,
    ) -> Result<bool, ArmError> {
        let url = format!(
            "{}/subscriptions/{}/resourceGroups/{}?api-version={GROUPS_API}",
            self.endpoint.resource_manager(),
            escape(subscription),
            escape(resource_group),
        );
        let subject = resource_group.to_owned();
        let ask = Ask::new(Verb::GetResourceGroup, subject, Method::GET, url);
        match self.exchange(&ask).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::ResourceGroupNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists the VM sizes that a subscription sees in a location, sorted by name.
    ///
    /// # Source
    /// <https://learn.microsoft.com/rest/api/compute/resource-skus/list>
    pub async fn list_vm_sizes(
        &self,
        subscription: &str,
        location: &str,
    ) -> Result<Vec<VmSize>, ArmError> {
        let url = format!(
            "{}/subscriptions/{}/providers/Microsoft.Compute/skus\
             ?$filter={}&api-version={SKUS_API}",
            self.endpoint.resource_manager(),
            escape(subscription),
            escape(&format!("location eq '{location}'")),
        );
        let ask = Ask::new(Verb::ListVmSizes, location.to_owned(), Method::GET, url);
        let skus: Vec<Sku> = self.pages(ask).await?;
        let mut sizes: Vec<VmSize> = skus.into_iter().filter_map(Sku::into_vm_size).collect();
        sizes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(sizes)
    }

    fn ask_set(&self, verb: Verb, id: &ScaleSetId, method: Method, rest: &str, query: &str) -> Ask {
        let url = format!("{}{rest}?{query}api-version={COMPUTE_API}", self.url(id));
        Ask::new(
            verb,
            format!("{}/{}", id.resource_group, id.name),
            method,
            url,
        )
    }

    fn ask_instance(
        &self,
        verb: Verb,
        id: &ScaleSetId,
        instance_id: &str,
        method: Method,
        query: &str,
    ) -> Ask {
        let segment = escape(instance_id);
        let url = format!(
            "{}/virtualMachines/{segment}?{query}api-version={COMPUTE_API}",
            self.url(id)
        );
        let subject = format!("{}/{}/{instance_id}", id.resource_group, id.name);
        Ask::new(verb, subject, method, url)
    }

    fn url(&self, id: &ScaleSetId) -> String {
        let ScaleSetId {
            subscription,
            resource_group,
            name,
        } = id;
        let escaped = ScaleSetId::new(escape(subscription), escape(resource_group), escape(name));
        format!("{}{escaped}", self.endpoint.resource_manager())
    }

    async fn write_scale_set(&self, ask: Ask) -> Result<Accepted<ScaleSet>, ArmError> {
        let answer = self.exchange(&ask).await?;
        let resource = decode_scale_set(&ask, &answer)?;
        // A body that already says `Succeeded` ends the operation, whatever the headers offer.
        let operation = match resource.provisioning_state() {
            ProvisioningState::Succeeded => None,
            _ => Operation::from_headers(&ask, answer.headers()),
        };
        Ok(Accepted {
            resource,
            operation,
        })
    }

    async fn act_on(
        &self,
        ask: Ask,
        instance_ids: &[String],
    ) -> Result<Option<Operation>, ArmError> {
        refuse_no_ids(&ask, instance_ids)?;
        self.act(&ask.with_body(&InstanceIds { instance_ids })?)
            .await
    }

    async fn act(&self, ask: &Ask) -> Result<Option<Operation>, ArmError> {
        let answer = self.exchange(ask).await?;
        let operation = Operation::from_headers(ask, answer.headers());
        match (answer.status(), operation) {
            (StatusCode::NO_CONTENT, _) => Ok(None),
            (StatusCode::ACCEPTED, None) => {
                Err(ask.malformed("the request was accepted, but no URL to follow it was given"))
            }
            (_, operation) => Ok(operation),
        }
    }

    async fn pages<T: DeserializeOwned>(&self, mut ask: Ask) -> Result<Vec<T>, ArmError> {
        let mut items = Vec::new();
        for _ in 0..PAGES_MAX {
            let answer = self.exchange(&ask).await?;
            let page: Page<T> = ask.decode(answer.body())?;
            items.extend(page.value);
            match page.next_link.filter(|link| !link.is_empty()) {
                // The link is opaque. Spaces are the one thing ARM has in it that no URL may have.
                Some(link) => ask.url = link.replace(' ', "%20"),
                None => return Ok(items),
            }
        }
        Err(ask.malformed(format!("the list has no end after {PAGES_MAX} pages")))
    }
}

impl fmt::Debug for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arm")
            .field("endpoint", &self.endpoint)
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}

fn force_query(deletion: Deletion) -> &'static str {
    match deletion {
        Deletion::Graceful => "",
        Deletion::Forced => "forceDeletion=true&",
    }
}

fn require(ask: &mut Ask, etag: &ETag) -> Result<(), ArmError> {
    let value = HeaderValue::from_str(etag.as_str())
        .map_err(|_| ask.unsendable("the etag has characters no header may have"))?;
    ask.headers.push((IF_MATCH, value));
    Ok(())
}

/// Refuses an empty list of ids, which ARM would take for "all instances" in some verbs.
fn refuse_no_ids(ask: &Ask, instance_ids: &[String]) -> Result<(), ArmError> {
    let is_all = |id: &String| id == "*";
    if instance_ids.is_empty() || instance_ids.iter().any(is_all) {
        return Err(ask.unsendable("instances must be named one by one"));
    }
    Ok(())
}

fn decode_scale_set(ask: &Ask, answer: &Response<Bytes>) -> Result<ScaleSet, ArmError> {
    let mut scale_set: ScaleSet = ask.decode(answer.body())?;
    // The header is the one that `If-Match` is checked against.
    if let Some(etag) = header(answer.headers(), "etag") {
        scale_set.etag = Some(ETag::new(etag));
    }
    Ok(scale_set)
}

fn absent_is_none<T>(error: ArmError) -> Result<Option<T>, ArmError> {
    match error.kind() {
        ErrorKind::NotFound => Ok(None),
        _ => Err(error),
    }
}

fn gone_is_none<T>(error: ArmError) -> Result<Option<T>, ArmError> {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ResourceGroupNotFound | ErrorKind::UnknownInstance => {
            Ok(None)
        }
        _ => Err(error),
    }
}
