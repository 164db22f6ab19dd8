//! Reading a request's body whole, and writing an answer that knows whether it was taken.
//!
//! A refusal that is sent before the body was read reaches the API server as a broken pipe and not as a refusal. So
//! everything up to a bound is read first, whatever the answer will be.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::backend::Reserved;
use super::metrics::Refusal;

/// A body that is not judged.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is larger than the limit of {limit} bytes: the API server sends no object above 3 MiB")]
    TooLarge { limit: usize },
    #[error("the body did not arrive within {0:?}")]
    Slow(Duration),
    #[error("the body broke off: {0}")]
    Broken(axum::Error),
}

impl BodyError {
    pub(super) const fn status(&self) -> (StatusCode, Refusal) {
        match self {
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, Refusal::TooLarge),
            Self::Slow(_) => (StatusCode::REQUEST_TIMEOUT, Refusal::Timeout),
            Self::Broken(_) => (StatusCode::BAD_REQUEST, Refusal::BadRequest),
        }
    }
}

/// How much of a body is kept, how much is read at all, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) keep: usize,
    pub(super) drain: usize,
    pub(super) time: Duration,
}

/// Reads a body to its end, or to the bound of what is drained.
pub(super) async fn read(body: Body, limits: BodyLimits) -> Result<Bytes, BodyError> {
    tokio::time::timeout(limits.time, read_untimed(body, limits))
        .await
        .unwrap_or(Err(BodyError::Slow(limits.time)))
}

async fn read_untimed(mut body: Body, limits: BodyLimits) -> Result<Bytes, BodyError> {
    // The length is what the caller says: worth an allocation only up to the limit.
    let announced = usize::try_from(body.size_hint().lower())
        .unwrap_or(usize::MAX)
        .min(limits.keep);
    let mut kept = BytesMut::new();
    let mut seen = 0usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else {
            continue;
        };
        seen = seen.saturating_add(data.len());
        if seen > limits.drain {
            return Err(BodyError::TooLarge { limit: limits.keep });
        }
        if seen > limits.keep {
            kept = BytesMut::new();
            continue;
        }
        if seen == data.len() && data.len() == announced {
            // The usual review: one frame, nothing to copy.
            if body.is_end_stream() {
                return Ok(data);
            }
        }
        if kept.is_empty() {
            kept.reserve(announced.max(data.len()));
        }
        kept.extend_from_slice(&data);
    }
    if seen > limits.keep {
        Err(BodyError::TooLarge { limit: limits.keep })
    } else {
        Ok(kept.freeze())
    }
}

/// The body of an answer, with the reservation that it announces. Dropped before its bytes were taken for writing
/// (the caller went away), it gives the reservation back.
pub(super) struct AnswerBody {
    bytes: Option<Bytes>,
    reserved: Option<Reserved>,
}

impl AnswerBody {
    pub(super) fn new(bytes: Vec<u8>, reserved: Option<Reserved>) -> Self {
        Self {
            bytes: Some(bytes.into()),
            reserved,
        }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        if let Some(reserved) = self.reserved.take() {
            reserved.keep();
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::decision::{Question, Verdict};
    use crate::engine::Sources;
    use crate::server::backend::{Decider, Decision, NamedConfigMaps};
    use crate::server::metrics::Metrics;

    const LIMITS: BodyLimits = BodyLimits {
        keep: 8,
        drain: 32,
        time: Duration::from_secs(1),
    };

    #[derive(Default)]
    struct Releases(Mutex<BTreeSet<String>>);

    impl Decider for Releases {
        fn config_maps(&self, _: &Question) -> NamedConfigMaps {
            NamedConfigMaps::default()
        }

        fn concerns_gpus(&self, _: Question) -> bool {
            true
        }

        fn decide<'a>(
            &'a self,
            _: Question,
            _: &'a (dyn Sources + Sync),
            _: tokio::time::Instant,
        ) -> futures::future::BoxFuture<'a, Decision> {
            Box::pin(std::future::ready(Decision {
                verdict: Verdict::default(),
                reserved: None,
            }))
        }

        fn release(&self, uid: &str) {
            self.0.lock().unwrap().insert(uid.to_owned());
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_took_gives_its_reservation_back() {
        let decider = Arc::new(Releases::default());
        let body = |uid: &str| {
            let reserved = Reserved::new(decider.clone(), Arc::new(Metrics::new()), uid.to_owned());
            AnswerBody::new(b"{}".to_vec(), Some(reserved))
        };
        drop(body("gone"));
        let taken = body("taken").collect().await.unwrap().to_bytes();
        assert_eq!(taken.as_ref(), b"{}");
        assert_eq!(*decider.0.lock().unwrap(), BTreeSet::from(["gone".to_owned()]));
    }

    #[tokio::test]
    async fn frames_are_joined_up_to_the_limit_and_read_up_to_the_bound() {
        let frames = |sizes: &[usize]| {
            let frames: Vec<_> = sizes
                .iter()
                .map(|size| Ok::<_, Infallible>(Bytes::from(vec![b'x'; *size])))
                .collect();
            Body::from_stream(futures::stream::iter(frames))
        };
        assert_eq!(read(Body::empty(), LIMITS).await.unwrap().len(), 0);
        assert_eq!(read(Body::from("12345678"), LIMITS).await.unwrap(), "12345678");
        assert_eq!(read(frames(&[3, 0, 5]), LIMITS).await.unwrap(), "xxxxxxxx");
        for sizes in [&[9][..], &[5, 4], &[8, 1], &[20, 20]] {
            let error = read(frames(sizes), LIMITS).await.unwrap_err();
            assert!(
                matches!(error, BodyError::TooLarge { limit: 8 }),
                "{sizes:?}: {error}"
            );
        }
    }
}
