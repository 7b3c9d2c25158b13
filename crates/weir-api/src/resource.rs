//! How is a Rust struct made into a Kubernetes object of its own kind?

/// Defines the root struct of a namespaced kind and makes it a `kube::Resource`.
///
/// We don't use kube's `CustomResource` derive for one reason: it can't read an object that has no
/// `spec`. The schemas of these kinds allow such an object (no root field is required), and a
/// list that holds one unreadable object is lost as a whole, for all namespaces. Here an absent
/// `spec` reads as the default one, and whoever uses it can say what is missing.
macro_rules! resource {
    (
        $(#[$doc:meta])*
        $name:ident($spec:ty, $status:ty), $group:expr, $version:literal, $plural:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// Group and version of the object.
            pub api_version: String,
            /// Kind of the object.
            pub kind: String,
            /// Name, namespace, labels, owners and the like.
            pub metadata: kube::core::ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
            /// What was seen last; absent until a controller has written it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub status: Option<$status>,
        }

        impl $name {
            /// Makes an object that has a name and a spec, and neither namespace nor status.
            pub fn new(name: &str, spec: $spec) -> Self {
                let mut object = Self { spec, ..Self::default() };
                object.metadata.name = Some(name.to_owned());
                object
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    api_version: <Self as kube::Resource>::api_version(&()).into_owned(),
                    kind: stringify!($name).to_owned(),
                    metadata: Default::default(),
                    spec: Default::default(),
                    status: None,
                }
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl kube::core::object::HasSpec for $name {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }
            fn spec_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }

        impl kube::core::object::HasStatus for $name {
            type Status = $status;

            fn status(&self) -> Option<&$status> {
                self.status.as_ref()
            }
            fn status_mut(&mut self) -> &mut Option<$status> {
                &mut self.status
            }
        }
    };
}

pub(crate) use resource;
