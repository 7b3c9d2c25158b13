//! How does a client in the same process talk to the world?
//!
//! Two tower services over one shared world: [`KubeService`] suits `kube::Client::new`, and
//! [`ArmService`] answers Azure requests. Neither opens a socket.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::cluster::{Reply, WatchId};
use crate::world::{Endpoint, World};

/// A world that several clients share.
#[derive(Clone, Debug)]
pub struct SharedWorld {
    world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
}

impl SharedWorld {
    /// Shares a world.
    pub fn new(world: World) -> SharedWorld {
        SharedWorld {
            world: Arc::new(Mutex::new(world)),
            changed: Arc::new(Notify::new()),
        }
    }

    /// Looks at the world, or changes it, and wakes everyone who waits for a change.
    ///
    /// The lock is held while `look` runs: it must not wait for anything.
    pub fn with<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        let result = look(&mut self.lock());
        self.changed.notify_waiters();
        result
    }

    /// Moves the world's time forward and wakes everyone who waits for a change.
    pub fn advance(&self, to: Timestamp) {
        self.with(|world| world.advance(to));
    }

    /// Answers one request at the present time and wakes everyone who waits for a change.
    pub fn answer(&self, endpoint: Endpoint, request: &Request<Bytes>) -> Response<WorldBody> {
        match self.with(|world| world.handle(endpoint, request)) {
            Reply::Response(response) => {
                response.map(|bytes| http_body_util::Full::new(bytes).boxed_unsync())
            }
            Reply::Watch(id) => Response::new(self.stream(id)),
        }
    }

    /// Returns the body that streams a watch.
    pub fn stream(&self, id: WatchId) -> WorldBody {
        let stream = WatchStream {
            shared: self.clone(),
            id,
        };
        let frames = futures::stream::unfold((stream, VecDeque::new()), next_frame);
        http_body_util::StreamBody::new(frames).boxed_unsync()
    }

    /// Returns the service for `kube::Client::new`.
    pub fn kube(&self, endpoint: Endpoint) -> KubeService {
        KubeService {
            shared: self.clone(),
            endpoint,
        }
    }

    /// Returns the service for Azure requests.
    pub fn arm(&self) -> ArmService {
        ArmService {
            shared: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        // A panic in a test's closure says nothing about the world itself.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of an answer: whole, or a watch's lines as they come.
pub type WorldBody = UnsyncBoxBody<Bytes, Infallible>;

struct WatchStream {
    shared: SharedWorld,
    id: WatchId,
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.shared.lock().watch_close(self.id);
    }
}

type Frames = VecDeque<Bytes>;

async fn next_frame(
    (stream, mut frames): (WatchStream, Frames),
) -> Option<(Result<Frame<Bytes>, Infallible>, (WatchStream, Frames))> {
    loop {
        if let Some(line) = frames.pop_front() {
            return Some((Ok(Frame::data(line)), (stream, frames)));
        }
        let notified = stream.shared.changed.clone();
        let mut changed = Pin::from(Box::new(notified.notified()));
        // Registered before the poll, so that no change between the two is missed.
        changed.as_mut().enable();
        frames = stream.shared.lock().watch_poll(stream.id)?.into();
        if frames.is_empty() {
            changed.await;
        }
    }
}

/// Answers Kubernetes requests from the world.
#[derive(Clone, Debug)]
pub struct KubeService {
    shared: SharedWorld,
    endpoint: Endpoint,
}

impl<B> tower::Service<Request<B>> for KubeService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<WorldBody>;
    type Error = B::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let KubeService { shared, endpoint } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(shared.answer(endpoint, &Request::from_parts(parts, body)))
        })
    }
}

/// Answers Azure requests from the world.
#[derive(Clone, Debug)]
pub struct ArmService {
    shared: SharedWorld,
}

impl tower::Service<Request<Bytes>> for ArmService {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Bytes>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let reply = self
            .shared
            .with(|world| world.handle(Endpoint::Azure, &request));
        std::future::ready(Ok(match reply {
            Reply::Response(response) => response,
            Reply::Watch(_) => unreachable!("Azure has no watches"),
        }))
    }
}
