//! Which image are machines made from?

use weir_api::capi::MachinePool;
use weir_api::{AzureMachinePool, ComputeGalleryImage, Image};
use weir_azure::vmss::{ImageReference, Plan};

use super::ModelError;
use super::name::is_windows;

/// The community gallery with the images that CAPZ publishes.
///
/// # Source
/// CAPZ `69ec3a40`, azure/defaults.go; the same for the two names of images below.
const GALLERY: &str = "ClusterAPI-f72ceb4f-5159-4c26-a0fe-2ea738f0d019";
const LINUX_IMAGE: &str = "capi-ubun2-2404";
/// The digits are the edition, which an annotation can replace.
const WINDOWS_IMAGE: (&str, &str, &str) = ("capi-win-", "2022", "-containerd");

/// The lowest version in the gallery of each minor that has versions below it; CAPZ takes older
/// ones from a Marketplace offer that is no longer kept up, which we don't.
///
/// # Source
/// CAPZ `69ec3a40`, azure/services/virtualmachineimages/images.go.
const FIRST_IN_GALLERY: [(u64, u64); 3] = [(28, 13), (29, 8), (30, 4)];

/// Returns the image of the spec, or the published one for the wanted Kubernetes version.
pub(super) fn image(
    pool: &AzureMachinePool,
    machine_pool: &MachinePool,
) -> Result<Image, ModelError> {
    if let Some(image) = &pool.spec.template.image {
        check(image)?;
        return Ok(image.clone());
    }
    let version = machine_pool.spec.template.spec.version.as_deref();
    let version = version
        .filter(|version| !version.is_empty())
        .ok_or(ModelError::NoVersion)?;
    let name = if is_windows(pool) {
        windows_image(pool)?
    } else {
        LINUX_IMAGE.to_owned()
    };
    let compute_gallery = Some(ComputeGalleryImage {
        gallery: GALLERY.to_owned(),
        name,
        version: published_version(version)?,
        ..ComputeGalleryImage::default()
    });
    Ok(Image {
        compute_gallery,
        ..Image::default()
    })
}

fn check(image: &Image) -> Result<(), ModelError> {
    let Image {
        id,
        shared_gallery,
        marketplace,
        compute_gallery,
    } = image;
    let given = [
        id.is_some(),
        shared_gallery.is_some(),
        marketplace.is_some(),
        compute_gallery.is_some(),
    ];
    let count = given.iter().filter(|given| **given).count();
    if count != 1 {
        return Err(ModelError::Image { count });
    }
    match compute_gallery {
        Some(gallery) if gallery.subscription_id.is_some() != gallery.resource_group.is_some() => {
            Err(ModelError::Gallery)
        }
        _ => Ok(()),
    }
}

fn windows_image(pool: &AzureMachinePool) -> Result<String, ModelError> {
    let annotation = |key: &str| {
        let found = pool
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(key));
        found.filter(|value| !value.is_empty())
    };
    if let Some(runtime) = annotation("runtime").filter(|runtime| *runtime != "containerd") {
        return Err(ModelError::Runtime {
            value: runtime.clone(),
        });
    }
    let (before, default_edition, after) = WINDOWS_IMAGE;
    let edition = match annotation("windowsServerVersion") {
        None => default_edition,
        Some(value) => value
            .strip_prefix("windows-")
            .filter(|year| year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()))
            .ok_or_else(|| ModelError::WindowsServerVersion {
                value: value.clone(),
            })?,
    };
    Ok(format!("{before}{edition}{after}"))
}

/// Returns a Kubernetes version as the gallery has it: three numbers, without a leading v.
fn published_version(version: &str) -> Result<String, ModelError> {
    let unreadable = || ModelError::Version {
        version: version.to_owned(),
    };
    let bare = version.trim().trim_start_matches(['v', 'V']);
    let (numbers, rest) = match bare.find(['-', '+']) {
        Some(at) => bare.split_at(at),
        None => (bare, ""),
    };
    let parts: Vec<u64> = numbers
        .split('.')
        .map(|part| part.parse().map_err(|_| unreadable()))
        .collect::<Result<_, _>>()?;
    let (major, minor, patch) = match parts.as_slice() {
        [major, minor] => (*major, *minor, 0),
        [major, minor, patch] => (*major, *minor, *patch),
        _ => return Err(unreadable()),
    };
    let (oldest_minor, _) = FIRST_IN_GALLERY[0];
    let first = FIRST_IN_GALLERY.iter().find(|(of, _)| *of == minor);
    let is_too_old = minor < oldest_minor || first.is_some_and(|(_, first)| patch < *first);
    if major == 1 && is_too_old {
        return Err(ModelError::NoPublishedImage {
            version: version.to_owned(),
        });
    }
    Ok(format!("{major}.{minor}.{patch}{rest}"))
}

/// Returns the image as Azure wants it referred to.
pub(super) fn reference(image: &Image) -> ImageReference {
    let Image {
        id,
        shared_gallery,
        marketplace,
        compute_gallery,
    } = image;
    if let Some(image) = marketplace {
        return ImageReference {
            publisher: Some(image.publisher.clone()),
            offer: Some(image.offer.clone()),
            sku: Some(image.sku.clone()),
            version: Some(image.version.clone()),
            ..ImageReference::default()
        };
    }
    if let Some(image) = shared_gallery {
        let place = (
            image.subscription_id.as_str(),
            image.resource_group.as_str(),
        );
        return by_id(&gallery_id(
            place,
            &image.gallery,
            &image.name,
            &image.version,
        ));
    }
    if let Some(image) = compute_gallery {
        let ComputeGalleryImage {
            gallery,
            name,
            version,
            subscription_id,
            resource_group,
            ..
        } = image;
        return match (subscription_id, resource_group) {
            (Some(subscription), Some(group)) => {
                by_id(&gallery_id((subscription, group), gallery, name, version))
            }
            _ => by_id(&format!(
                "/CommunityGalleries/{gallery}/Images/{name}/Versions/{version}"
            )),
        };
    }
    by_id(&super::arm_id(id.as_deref().unwrap_or_default()))
}

fn gallery_id(place: (&str, &str), gallery: &str, name: &str, version: &str) -> String {
    let (subscription, group) = place;
    format!(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute\
         /galleries/{gallery}/images/{name}/versions/{version}"
    )
}

/// Puts an id into the field that Azure has for its kind.
fn by_id(id: &str) -> ImageReference {
    let lowered = id.to_ascii_lowercase();
    let id = Some(id.to_owned());
    if lowered.starts_with("/communitygalleries/") {
        ImageReference {
            community_gallery_image_id: id,
            ..ImageReference::default()
        }
    } else if lowered.starts_with("/sharedgalleries/") {
        ImageReference {
            shared_gallery_image_id: id,
            ..ImageReference::default()
        }
    } else {
        ImageReference {
            id,
            ..ImageReference::default()
        }
    }
}

/// Returns the plan to buy the image under, if it has one.
pub(super) fn plan(image: &Image) -> Option<Plan> {
    let plan = |publisher: &String, offer: &String, sku: &String| Plan {
        name: Some(sku.clone()),
        publisher: Some(publisher.clone()),
        product: Some(offer.clone()),
    };
    if let Some(image) = &image.shared_gallery
        && let (Some(publisher), Some(offer), Some(sku)) =
            (&image.publisher, &image.offer, &image.sku)
    {
        return Some(plan(publisher, offer, sku));
    }
    if let Some(image) = image
        .marketplace
        .as_ref()
        .filter(|image| image.third_party_image)
    {
        return Some(plan(&image.publisher, &image.offer, &image.sku));
    }
    let of_gallery = image
        .compute_gallery
        .as_ref()
        .and_then(|image| image.plan.as_ref());
    of_gallery.map(|bought| plan(&bought.publisher, &bought.offer, &bought.sku))
}

/// Returns the one form of an image reference: two that name the same image have the same form.
///
/// Ids lose their letter case, and "the latest version" is the same said or left out.
pub(super) fn normal_form(reference: &ImageReference) -> Option<String> {
    // What `latest` came to is Azure's own note.
    let ImageReference {
        publisher,
        offer,
        sku,
        version,
        exact_version: _,
        ..
    } = reference;
    let ids = [
        &reference.id,
        &reference.community_gallery_image_id,
        &reference.shared_gallery_image_id,
    ];
    if let Some(id) = ids.into_iter().flatten().find(|id| !id.is_empty()) {
        let form = super::revision::id_form(id);
        return Some(
            form.strip_suffix("/versions/latest")
                .unwrap_or(&form)
                .to_owned(),
        );
    }
    let parts = [publisher, offer, sku, version].map(|part| part.as_deref().unwrap_or_default());
    let form = parts.join(":").to_ascii_lowercase();
    (form != ":::").then_some(form)
}
