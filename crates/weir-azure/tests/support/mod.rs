//! A scripted Azure: gives prepared answers in order and keeps what it was asked.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;
use tower::service_fn;
use weir_azure::{Arm, Credential, Endpoint, Identity, ScaleSetId, Wire, WireError};

pub(crate) const TOKEN: &str = "token-of-the-test";

pub(crate) type Answer = Result<Response<Bytes>, WireError>;

/// One exchange as it happened.
pub(crate) struct Exchange {
    pub(crate) at: Duration,
    pub(crate) request: Request<Bytes>,
    pub(crate) answered: String,
}

#[derive(Clone)]
pub(crate) struct Script {
    started: Instant,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            started: Instant::now(),
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            exchanges: Arc::default(),
        }
    }

    pub(crate) fn wire(&self) -> Wire {
        let script = self.clone();
        Wire::new(service_fn(move |request| {
            let answer = script.answer(request);
            async move { answer }
        }))
    }

    /// A client with a fixed token.
    pub(crate) fn arm(&self) -> Arm {
        let wire = self.wire();
        let identity = Identity::Token(TOKEN.into());
        let credential = Credential::new(&wire, &endpoint(), identity).unwrap();
        Arm::new(wire, endpoint(), credential)
    }

    fn answer(&self, request: Request<Bytes>) -> Answer {
        let answer = self
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .expect("the script has no more");
        let answered = answer
            .as_ref()
            .map_or_else(ToString::to_string, render_answer);
        let at = self.started.elapsed();
        self.exchanges.lock().unwrap().push(Exchange {
            at,
            request,
            answered,
        });
        answer
    }

    /// Whether every prepared answer was asked for.
    pub(crate) fn is_used_up(&self) -> bool {
        self.answers.lock().unwrap().is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.exchanges.lock().unwrap().len()
    }

    /// Seconds at which requests came.
    pub(crate) fn seconds(&self) -> Vec<u64> {
        self.exchanges
            .lock()
            .unwrap()
            .iter()
            .map(|exchange| exchange.at.as_secs())
            .collect()
    }

    pub(crate) fn request<T>(&self, index: usize, look: impl FnOnce(&Request<Bytes>) -> T) -> T {
        look(&self.exchanges.lock().unwrap()[index].request)
    }

    /// All exchanges as text: `>` request, `<` answer.
    pub(crate) fn transcript(&self) -> String {
        let mut text = String::new();
        for exchange in self.exchanges.lock().unwrap().iter() {
            text.push_str(&render_request(&exchange.request));
            text.push_str(&exchange.answered);
        }
        text
    }
}

pub(crate) fn endpoint() -> Endpoint {
    Endpoint::custom("https://arm.test", "https://arm.test", "https://login.test").unwrap()
}

pub(crate) fn pool() -> ScaleSetId {
    ScaleSetId::new("00000000-0000-4000-8000-00000000000a", "Group-A", "pool-a")
}

pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &Value) -> Answer {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    raw(status, headers, body)
}

pub(crate) fn raw(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    Ok(builder.body(body.into()).unwrap())
}

pub(crate) fn refused(host: &str) -> Answer {
    let source = Box::from("connection refused");
    Err(WireError::Connect {
        host: host.to_owned(),
        source,
    })
}

pub(crate) fn broken() -> Answer {
    let source = Box::from("connection reset");
    Err(WireError::Broken {
        host: "arm.test".to_owned(),
        source,
    })
}

fn render_request(request: &Request<Bytes>) -> String {
    let mut text = format!("> {} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        let shown = if name == "user-agent" {
            "weir/<version>"
        } else {
            value.to_str().unwrap()
        };
        writeln!(text, "> {name}: {shown}").unwrap();
    }
    text + &render_body(request.body())
}

fn render_answer(answer: &Response<Bytes>) -> String {
    let mut text = format!("< {}\n", answer.status().as_u16());
    for (name, value) in answer.headers() {
        writeln!(text, "< {name}: {}", value.to_str().unwrap()).unwrap();
    }
    text + &render_body(answer.body())
}

fn render_body(body: &Bytes) -> String {
    if body.is_empty() {
        return String::new();
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(json) => format!("{json:#}\n"),
        Err(_) => format!("{}\n", String::from_utf8_lossy(body)),
    }
}
