//! The two seams to the world: every request is parked until the rig lets it through.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::oneshot;
use weir_azure::{Wire, WireError};
use weir_controllers::Clock;
use weir_world::world::Endpoint;

/// A request that waits to be let through.
pub(crate) struct Parked {
    /// Which run of the controller sent it.
    pub(crate) term: u32,
    pub(crate) endpoint: Endpoint,
    pub(crate) request: Request<Bytes>,
    pub(crate) reply: oneshot::Sender<Response<Bytes>>,
}

/// Where requests wait, in the order in which they came.
#[derive(Clone, Default)]
pub(crate) struct Lot {
    parked: Arc<Mutex<VecDeque<Parked>>>,
    term: u32,
}

impl Lot {
    /// Returns the same lot for another run of the controller.
    pub(crate) fn for_term(&self, term: u32) -> Lot {
        let parked = self.parked.clone();
        Lot { parked, term }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Takes out the request at this place; `None` if there are fewer.
    pub(crate) fn take(&self, at: usize) -> Option<Parked> {
        self.lock().remove(at)
    }

    /// Lists what waits, for checkers.
    pub(crate) fn each<T>(&self, look: impl FnMut(&Parked) -> T) -> Vec<T> {
        self.lock().iter().map(look).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn park(&self, endpoint: Endpoint, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let (reply, answer) = oneshot::channel();
        self.lock().push_back(Parked {
            term: self.term,
            endpoint,
            request,
            reply,
        });
        answer.await.ok()
    }
}

/// The answer never came.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection was lost before the answer came")
    }
}

impl std::error::Error for Lost {}

/// The seam to one of the two API servers.
#[derive(Clone)]
struct KubeSeam {
    endpoint: Endpoint,
    lot: Lot,
}

type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl tower::Service<Request<kube::client::Body>> for KubeSeam {
    type Response = Response<Full<Bytes>>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Boxed<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let seam = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let request = Request::from_parts(parts, bytes);
            let answer = seam.lot.park(seam.endpoint, request).await;
            Ok(answer.ok_or(Lost)?.map(Full::new))
        })
    }
}

/// Returns a client of one of the two API servers.
pub(crate) fn kube_client(endpoint: Endpoint, lot: &Lot) -> kube::Client {
    kube::Client::new(
        KubeSeam {
            endpoint,
            lot: lot.clone(),
        },
        "default",
    )
}

/// Returns the wire to Azure.
pub(crate) fn wire(lot: &Lot) -> Wire {
    let lot = lot.clone();
    Wire::new(tower::service_fn(move |request: Request<Bytes>| {
        let lot = lot.clone();
        async move {
            let host = request.uri().host().unwrap_or_default().to_owned();
            let answer = lot.park(Endpoint::Azure, request).await;
            answer.ok_or_else(|| WireError::Broken {
                host,
                source: Box::new(Lost),
            })
        }
    }))
}

/// The world's clock, as reconcilers see it.
#[derive(Clone)]
pub(crate) struct WorldClock(pub(crate) Arc<Mutex<jiff::Timestamp>>);

impl WorldClock {
    pub(crate) fn set(&self, now: jiff::Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Clock for WorldClock {
    fn now(&self) -> jiff::Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
