//! Is a user told what to do about bad input, on the object that it is about?

use anyhow::{bail, ensure};
use kube::api::PostParams;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_e2e::apply;
use weir_e2e::fixtures::{self, CORE, INFRASTRUCTURE, Place, Pool};

use crate::stack::Stack;

/// Pools, and what an API server that has our definition says to each.
const RULES: &str = include_str!("../../../weir-api/tests/rules.yaml");

#[derive(Deserialize)]
struct Example {
    name: String,
    spec: Value,
    refused: Option<String>,
}

/// Makes what users get wrong, in a running cluster, and looks for what they are told.
pub(crate) async fn is_told_to_the_user(stack: &Stack, place: &Place) -> anyhow::Result<()> {
    definition_refuses_what_it_says(stack, place).await?;
    let management = &stack.control_plane.management;

    let sizeless = pool("sizeless", "Standard_D2s_v55");
    fixtures::apply_pool(management, place, &sizeless).await?;

    let unbooted = pool("unbooted", "Standard_D2s_v5");
    fixtures::apply_pool(management, place, &unbooted).await?;
    let mut machine_pool = place.object(CORE, "MachinePool", "unbooted");
    machine_pool["spec"] = json!({"clusterName": place.cluster, "replicas": 1});
    machine_pool["spec"]["template"]["spec"] = json!({
        "clusterName": place.cluster,
        "version": "v1.36.3",
        "bootstrap": {"dataSecretName": "absent"},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "AzureMachinePool",
            "name": "unbooted",
        },
    });
    apply(&management.client, machine_pool).await?;

    let strangers = Place::new("strangers", "c2");
    fixtures::create_cluster(&stack.control_plane, &strangers).await?;
    let mut secret = strangers.object("v1", "Secret", "c2-identity");
    secret["stringData"] = json!({"clientSecret": "wrong"});
    apply(&management.client, secret).await?;
    fixtures::apply_pool(
        management,
        &strangers,
        &pool("locked-out", "Standard_D2s_v5"),
    )
    .await?;

    stack
        .complaint(place, "unbooted", &["absent", "create it"])
        .await?;
    stack
        .complaint(place, "sizeless", &["Standard_D2s_v55"])
        .await?;
    stack
        .complaint(
            &strangers,
            "locked-out",
            &["AADSTS7000215", "client secret"],
        )
        .await
}

fn pool(name: &str, size: &str) -> Pool {
    let mut azure_spec = fixtures::azure_pool_spec();
    azure_spec["template"]["vmSize"] = json!(size);
    Pool {
        name: name.to_owned(),
        replicas: 1,
        version: "v1.36.3".to_owned(),
        azure_spec,
    }
}

/// Tries each example, without leaving anything behind.
async fn definition_refuses_what_it_says(stack: &Stack, place: &Place) -> anyhow::Result<()> {
    let pools = stack.pools(place);
    let trial = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let examples: Vec<Example> = serde_yaml::from_str(RULES)?;
    for Example {
        name,
        spec: over,
        refused,
    } in &examples
    {
        let mut pool = place.object(INFRASTRUCTURE, "AzureMachinePool", "tried");
        pool["spec"] = json!({"location": "l", "template": {"vmSize": "s", "osDisk": {}}});
        lay_over(&mut pool["spec"], over);
        let tried = pools.create(&trial, &serde_json::from_value(pool)?).await;
        match (tried, refused) {
            (Ok(_), None) => {}
            (Ok(_), Some(message)) => bail!("{name}: taken, and should be refused: {message}"),
            (Err(error), None) => bail!("{name}: refused, and should be taken: {error}"),
            (Err(error), Some(message)) => ensure!(
                error.to_string().contains(message.as_str()),
                "{name}: refused in other words: {error}"
            ),
        }
    }
    ensure!(!examples.is_empty(), "there are no examples");
    println!(
        "the API server agrees with {} examples of rules",
        examples.len()
    );
    Ok(())
}

fn lay_over(value: &mut Value, over: &Value) {
    match (value, over) {
        (Value::Object(object), Value::Object(over)) => {
            for (name, over) in over {
                lay_over(object.entry(name).or_insert(Value::Null), over);
            }
        }
        (value, over) => *value = over.clone(),
    }
}
