//! A definition of ours as plain JSON, for the tests to walk over.

use serde_json::Value;

/// Returns the definition with this plural, as JSON.
pub(crate) fn definition(plural: &str) -> Value {
    let crd = weir_api::crds()
        .into_iter()
        .find(|crd| crd.spec.names.plural == plural);
    serde_json::to_value(crd.expect("a kind of ours")).expect("a definition is JSON")
}

/// Returns the schema in a definition.
pub(crate) fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}
