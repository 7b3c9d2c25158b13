//! Does ARM's protocol behave as docs/azure.md says: tokens, polls, pages, allowances, faults?

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

mod azure_support;

use std::collections::BTreeSet;

use azure_support::{Answer, Lab, SUBSCRIPTION, VERSION, capacity, pool, url};
use http::{Method, StatusCode};
use jiff::SignedDuration;
use serde_json::{Value, json};
use weir_world::azure::{
    AzureFaults, AzureOptions, Groups, Latency, ThrottleBody, Throttling, TokenCheck, VmEvent,
};

const ARM: &str = "https://management.azure.com";
const TENANT: &str = "11111111-1111-1111-1111-111111111111";

#[test]
fn poll_urls_are_long_and_must_come_back_verbatim() {
    let mut lab = Lab::with_pool(2);
    let id = lab.ids()[0].clone();
    let accepted = lab.post("/delete", &[&id]);
    assert_eq!(accepted.header("content-length"), Some("0"));
    assert_eq!(accepted.header("retry-after"), Some("10"));
    assert_eq!(accepted.header("azure-asyncnotification"), Some("Enabled"));
    assert_eq!(accepted.header("x-ms-request-charge"), Some("1"));
    let status_url = accepted.poll_url();
    let location = accepted.header("location").unwrap().to_owned();
    assert!(status_url.starts_with(ARM) && location.contains("monitor=true"));
    assert!(status_url.len() > 2_500, "{}", status_url.len());

    let (path, query) = status_url.split_once('?').unwrap();
    let shortened = query.rsplit_once("&h=").unwrap().0;
    let reordered = query.split('&').rev().collect::<Vec<_>>().join("&");
    for changed in [shortened, &reordered, VERSION] {
        let refused = lab.get_url(&format!("{path}?{changed}"));
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }
    let unknown = status_url.replace("operations/", "operations/0");
    assert_eq!(lab.get_url(&unknown).status, StatusCode::NOT_FOUND);

    let running = lab.get_url(&status_url);
    assert_eq!(running.status, StatusCode::OK);
    assert_eq!(running.text("/status"), "InProgress");
    assert_eq!(running.header("retry-after"), Some("10"));
    assert!(running.body.get("endTime").is_none());
    assert_eq!(
        running.text("/startTime"),
        "2025-11-30T10:01:00.0000000+00:00"
    );
    assert_eq!(lab.get_url(&location).status, StatusCode::ACCEPTED);
    lab.settle();
    let done = lab.get_url(&status_url);
    assert_eq!(done.text("/status"), "Succeeded");
    assert_eq!(done.text("/endTime"), "2025-11-30T10:02:00.0000000+00:00");
    let end = lab.get_url(&location);
    assert_eq!((end.status, end.body), (StatusCode::OK, Value::Null));
}

#[test]
fn operations_are_forgotten_some_time_after_their_end() {
    let mut lab = Lab::with_pool(1);
    let first = lab.put("", &capacity(2)).poll_url();
    lab.pass(59 * 60);
    lab.put("", &capacity(2));
    assert_eq!(lab.get_url(&first).status, StatusCode::OK);
    lab.pass(2 * 60);
    lab.put("", &capacity(2));
    assert_eq!(lab.get_url(&first).status, StatusCode::NOT_FOUND);
}

#[test]
fn pages_link_to_the_next_one_and_survive_changes_in_between() {
    let mut lab = Lab::new(AzureOptions {
        page_size: 2,
        ..AzureOptions::calm()
    });
    lab.create_pool(5);
    let mut seen = Vec::new();
    let mut next = url("/virtualMachines?$expand=instanceView");
    let mut pages = 0;
    loop {
        let page = lab.get_url(&next);
        assert_eq!(page.status, StatusCode::OK);
        for row in page.body["value"].as_array().unwrap() {
            assert!(row.pointer("/properties/instanceView").is_some());
            seen.push(row["instanceId"].as_str().unwrap().to_owned());
        }
        pages += 1;
        match page.body.get("nextLink").and_then(Value::as_str) {
            Some(link) => next = link.to_owned(),
            None => break,
        }
        assert!(next.starts_with(ARM));
        if pages == 1 {
            assert!(lab.azure.vanish("pool-a", "0"));
        }
    }
    assert_eq!(
        (pages, seen),
        (3, ["0", "1", "2", "3", "4"].map(str::to_owned).to_vec())
    );
}

#[test]
fn a_set_takes_twelve_writes_at_once_and_then_four_a_minute() {
    let mut lab = Lab::new(AzureOptions {
        throttling: Throttling::On,
        ..AzureOptions::calm()
    });
    lab.create_pool(1);
    let write = |lab: &mut Lab| lab.put("", &capacity(1));
    for count in 0..12 {
        let passed = write(&mut lab);
        assert_eq!(passed.status, StatusCode::OK, "{count}");
        let left = passed.header("x-ms-ratelimit-remaining-resource").unwrap();
        let expected = format!("Microsoft.Compute/UpdateVMScaleSetResource;{}", 11 - count);
        assert!(left.ends_with(&expected), "{left}");
    }
    let refused = write(&mut lab);
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("retry-after"), Some("15"));
    lab.pass(14);
    assert_eq!(write(&mut lab).header("retry-after"), Some("1"));
    lab.pass(1);
    assert_eq!(write(&mut lab).status, StatusCode::OK);
    lab.pass(60);
    let statuses: Vec<bool> = (0..5)
        .map(|_| write(&mut lab).status.is_success())
        .collect();
    assert_eq!(statuses, [true, true, true, true, false]);
    assert_eq!(lab.azure.report().throttled, 3);
    assert_eq!(
        lab.get("").status,
        StatusCode::OK,
        "reads have their own allowance"
    );
}

#[test]
fn polling_every_second_runs_dry_after_a_minute() {
    let mut lab = Lab::new(AzureOptions {
        throttling: Throttling::On,
        latency: Latency::fixed(SignedDuration::from_mins(10)),
        ..AzureOptions::calm()
    });
    let poll = lab.put("", &pool(1)).poll_url();
    let mut passed = 0;
    while lab.get_url(&poll).status == StatusCode::OK {
        passed += 1;
        lab.pass(1);
    }
    // 45 at once and one more every four seconds: at 59 s there have been 59.75, and 59 are taken.
    assert_eq!(passed, 59);
}

#[test]
fn computes_refusals_come_in_both_shapes() {
    let rows = [
        (ThrottleBody::Wrapped, [true, true]),
        (ThrottleBody::Bare, [false, false]),
        (ThrottleBody::Alternate, [true, false]),
    ];
    for (throttle_body, wrapped) in rows {
        let mut lab = Lab::new(AzureOptions {
            throttling: Throttling::On,
            throttle_body,
            ..AzureOptions::calm()
        });
        lab.create_pool(0);
        let answers: Vec<Answer> = (0..14).map(|_| lab.put("", &capacity(0))).collect();
        for (answer, is_wrapped) in answers[12..].iter().zip(wrapped) {
            assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(answer.code(), "OperationNotAllowed");
            assert_eq!(answer.body.get("error").is_some(), is_wrapped);
            let error = answer.body.get("error").unwrap_or(&answer.body);
            assert_eq!(error["details"][0]["code"], "TooManyRequests");
            let inner = error["details"][0]["message"].as_str().unwrap();
            let inner: Value = serde_json::from_str(inner).unwrap();
            assert_eq!(inner["allowedRequestCount"], 12);
        }
    }
}

#[test]
fn arms_own_allowance_is_per_verb() {
    let mut lab = Lab::new(AzureOptions {
        throttling: Throttling::On,
        ..AzureOptions::calm()
    });
    let group = format!("{ARM}{SUBSCRIPTION}/resourceGroups/a?{VERSION}");
    let statuses: Vec<u16> = (0..251)
        .map(|_| lab.get_url(&group).status.as_u16())
        .collect();
    assert!(statuses[..250].iter().all(|status| *status == 200));
    let refused = lab.get_url(&group);
    assert_eq!(refused.code(), "SubscriptionRequestsThrottled");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(lab.delete("").status, StatusCode::NO_CONTENT);
}

#[test]
fn arm_asks_for_a_token_and_the_authority_gives_one_for_the_right_secret() {
    let mut lab = Lab::new(AzureOptions {
        token_check: TokenCheck::On,
        client_secret: Some("right".to_owned()),
        ..AzureOptions::calm()
    });
    let refused = lab.get("");
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let challenge = format!("Bearer authorization_uri=\"{ARM}/{TENANT}\"");
    assert_eq!(refused.header("www-authenticate"), Some(challenge.as_str()));
    let wrong = login(&mut lab, "client_secret=wrong");
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert_eq!(wrong.text("/error"), "invalid_client");
    assert!(
        wrong
            .text("/error_description")
            .starts_with("AADSTS7000215: ")
    );
    let assertion = "client_assertion=e30.e30.sig&client_assertion_type=\
                     urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer";
    for credential in ["client_secret=right", assertion] {
        let token = login(&mut lab, credential);
        assert_eq!(token.status, StatusCode::OK, "{credential}");
        let bearer = format!("Bearer {}", token.text("/access_token"));
        let headers = [("authorization", bearer.as_str())];
        let let_in = lab.request(Method::GET, &url(""), &headers, None);
        assert_eq!(
            let_in.status,
            StatusCode::NOT_FOUND,
            "let in, and no such set"
        );
        lab.pass(3_601);
        let late = lab.request(Method::GET, &url(""), &headers, None);
        assert_eq!(late.code(), "ExpiredAuthenticationToken");
    }
    let forged = [("authorization", "Bearer forged")];
    let forged = lab.request(Method::GET, &url(""), &forged, None);
    assert_eq!(forged.code(), "InvalidAuthenticationToken");
    assert!(
        !format!("{:?}", lab.azure).contains("sim-"),
        "tokens are not printed"
    );
}

#[test]
fn a_managed_identity_must_send_the_metadata_header() {
    let mut lab = Lab::new(AzureOptions::default());
    let imds = "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01\
                &resource=https%3A%2F%2Fmanagement.azure.com%2F";
    assert_eq!(lab.get_url(imds).status, StatusCode::BAD_REQUEST);
    let token = lab.request(Method::GET, imds, &[("metadata", "true")], None);
    assert_eq!(token.text("/resource"), "https://management.azure.com/");
    assert_eq!(
        token.text("/expires_on"),
        (lab.now.as_second() + 3_600).to_string()
    );
    let bearer = format!("Bearer {}", token.text("/access_token"));
    let headers = [("authorization", bearer.as_str())];
    let let_in = lab.request(Method::GET, &url(""), &headers, None);
    assert_eq!(let_in.status, StatusCode::NOT_FOUND);
}

#[test]
fn a_client_finds_the_authority_from_the_metadata_endpoints() {
    let mut lab = Lab::new(AzureOptions::default());
    let headers = [("host", "localhost:18443")];
    let endpoints = "/metadata/endpoints?api-version=2022-09-01";
    let found = lab.request(Method::GET, endpoints, &headers, None);
    let base = found.text("/authentication/loginEndpoint").to_owned();
    assert_eq!(base, "https://localhost:18443");
    let discovery = format!("{base}/{TENANT}/v2.0/.well-known/openid-configuration");
    let token_url = lab.get_url(&discovery).text("/token_endpoint").to_owned();
    assert_eq!(token_url, format!("{base}/{TENANT}/oauth2/v2.0/token"));
}

#[test]
fn requests_that_are_wrong_in_themselves_are_refused_by_the_right_code() {
    let mut lab = Lab::new(AzureOptions {
        groups: Groups::Only(["cluster-a".to_owned()].into()),
        ..AzureOptions::calm()
    });
    lab.create_pool(1);
    let no_version = url("").split('?').next().unwrap().to_owned();
    let other_group = url("").replace("Cluster-A", "other");
    let rows = [
        (no_version.as_str(), 400, "MissingApiVersionParameter"),
        (&other_group, 404, "ResourceGroupNotFound"),
        (
            &url("").replace("pool-a", "pool-b"),
            404,
            "ResourceNotFound",
        ),
    ];
    for (url, status, code) in rows {
        let refused = lab.get_url(url);
        assert_eq!(
            (refused.status.as_u16(), refused.code()),
            (status, code),
            "{url}"
        );
    }
    let shouted = url("").replace("resourceGroups", "RESOURCEGROUPS");
    let shouted = shouted
        .replace("pool-a", "POOL-A")
        .replace("Cluster-A", "cluster-a");
    let found = lab.get_url(&shouted);
    assert_eq!(found.status, StatusCode::OK);
    assert_eq!(
        found.text("/name"),
        "pool-a",
        "names keep the case they were made with"
    );
    let no_ids = lab.ask(Method::POST, "/delete", None);
    assert_eq!(
        (no_ids.status, no_ids.code()),
        (StatusCode::BAD_REQUEST, "InvalidParameter")
    );
}

#[test]
fn sizes_groups_images_and_subscriptions_can_be_looked_up() {
    let mut lab = Lab::new(AzureOptions::calm());
    let compute = format!("{ARM}{SUBSCRIPTION}/providers/Microsoft.Compute");
    let skus = format!("{compute}/skus?{VERSION}&$filter=location%20eq%20'northeurope'");
    let skus = lab.get_url(&skus);
    let size = skus.body["value"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "Standard_D4s_v5")
        .unwrap();
    assert_eq!(size["locations"], json!(["northeurope"]));
    let capabilities = size["capabilities"].as_array().unwrap();
    assert!(capabilities.contains(&json!({"name": "vCPUs", "value": "4"})));
    assert!(capabilities.iter().all(|row| row["value"].is_string()));

    let group = lab.get_url(&format!("{ARM}{SUBSCRIPTION}/resourcegroups/g?{VERSION}"));
    assert_eq!(group.text("/properties/provisioningState"), "Succeeded");
    let images = format!("{compute}/locations/westeurope");
    let market = format!(
        "{images}/publishers/p/artifacttypes/vmimage/offers/o/skus/s/versions\
         ?{VERSION}&$top=1&$orderby=name%20desc"
    );
    assert_eq!(lab.get_url(&market).body[0]["name"], "1.1.0", "a bare list");
    let gallery = format!("{images}/communityGalleries/g/images/i/versions?{VERSION}");
    assert_eq!(
        lab.get_url(&gallery).body["value"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let one = format!("{images}/communityGalleries/g/images/i/versions/9.9.9?{VERSION}");
    assert_eq!(lab.get_url(&one).status, StatusCode::NOT_FOUND);
    let subscriptions = lab.get_url(&format!("{ARM}/subscriptions?api-version=2022-12-01"));
    assert_eq!(subscriptions.text("/value/0/tenantId"), TENANT);
}

#[test]
fn faults_refuse_before_the_work_or_lose_the_answer_after_it() {
    let certain = |set: fn(&mut AzureFaults)| {
        let mut faults = AzureFaults::default();
        set(&mut faults);
        faults
    };
    let rows = [
        (certain(|f| f.error_500 = 1.0), 500, 1),
        (certain(|f| f.throttle = 1.0), 429, 1),
        (certain(|f| f.conflict = 1.0), 409, 1),
        (certain(|f| f.lost_answer = 1.0), 504, 4),
    ];
    for (faults, status, capacity_after) in rows {
        let mut lab = Lab::with_pool(1);
        lab.azure.set_faults(faults);
        let answer = lab.put("", &capacity(4));
        assert_eq!(answer.status.as_u16(), status);
        lab.azure.set_faults(AzureFaults::default());
        assert_eq!(lab.capacity(), capacity_after, "{status}");
    }
}

#[test]
fn instances_vanish_at_the_rate_that_was_asked_for() {
    let mut lab = Lab::new(AzureOptions {
        faults: AzureFaults {
            vanish_per_hour: 1.0,
            ..AzureFaults::default()
        },
        ..AzureOptions::calm()
    });
    let made = lab.put("", &pool(100));
    assert_eq!(made.status, StatusCode::CREATED);
    lab.pass(3_600);
    let left = lab.instances().len();
    // One in e is expected to be left: 37, give or take three deviations of five.
    assert!((22..=52).contains(&left), "{left}");
    assert_eq!(lab.capacity() as usize, left);
    lab.azure.set_faults(AzureFaults::default());
    lab.settle();
    assert_eq!(lab.instances().len(), left);
}

#[test]
fn calls_are_counted_by_operation() {
    let mut lab = Lab::with_pool(2);
    let poll = lab.post("/delete", &["0"]).poll_url();
    lab.get_url(&poll);
    lab.get("/virtualMachines");
    lab.get("/virtualMachines/77");
    lab.settle();
    let report = serde_json::to_value(lab.azure.report()).unwrap();
    assert_eq!(report["writes"], 2);
    assert_eq!(report["reads"], 2);
    assert_eq!(report["polls"], 1);
    let vm_get = &report["calls"]["VirtualMachineScaleSetVMs_Get"];
    assert_eq!(vm_get, &json!({"total": 1, "throttled": 0, "refused": 1}));
    assert_eq!(
        report["scaleSets"]["pool-a"],
        json!({"created": 2, "deleted": 1, "instancesMax": 2})
    );
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let traces: Vec<String> = [5, 5, 6].map(rough_day).to_vec();
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0], traces[2]);
    let distinct: BTreeSet<&String> = traces.iter().collect();
    assert_eq!(distinct.len(), 2);
    for kind in ["Booted", "Gone", "429", "500", "504"] {
        assert!(traces[0].contains(kind), "{kind} never happened");
    }
}

/// Everything that is seen in a day with all faults, as text.
fn rough_day(seed: u64) -> String {
    let options = AzureOptions {
        token_check: TokenCheck::Off,
        faults: AzureFaults {
            error_500: 0.05,
            lost_answer: 0.05,
            throttle: 0.05,
            conflict: 0.05,
            create_fails: 0.2,
            vanish_per_hour: 0.3,
        },
        ..AzureOptions::default()
    };
    let mut lab = Lab::seeded(options, seed);
    let mut trace = String::new();
    for turn in 0..200_u32 {
        let answer = match turn % 4 {
            0 => lab.put("", &pool(3 + turn % 5)),
            1 => lab.get("/virtualMachines?$expand=instanceView"),
            2 => {
                let ids = lab.ids();
                let first = ids.first().cloned().unwrap_or_default();
                lab.post("/delete", &[&first])
            }
            _ => lab.get("/instanceView"),
        };
        trace += &format!("{} {:?} {}\n", answer.status, answer.headers, answer.body);
        lab.pass(45);
    }
    let events: Vec<&VmEvent> = lab.events.iter().collect();
    format!("{trace}{events:?}{:?}", lab.azure.report())
}

fn login(lab: &mut Lab, credential: &str) -> Answer {
    let form = format!(
        "client_id=c&grant_type=client_credentials&scope=https%3A%2F%2Farm%2F.default&{credential}"
    );
    let request = http::Request::builder()
        .method(Method::POST)
        .uri(format!("{ARM}/{TENANT}/oauth2/v2.0/token"))
        .body(bytes::Bytes::from(form))
        .unwrap();
    let (parts, body) = lab.azure.handle(&request, lab.now).into_parts();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap(),
    }
}
