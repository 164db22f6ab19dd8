//! What a connection is doing: idle, sending a request's headers, or waiting for an answer.
//!
//! hyper's own header timeout starts when the connection becomes idle, so it would have to be longer than the 90 s for
//! which the API server keeps idle connections, and no limit for slow headers. Here both have their own clock.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Shared by the socket, the service and the watcher of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    opened: Instant,
    /// Milliseconds since `opened` at which the last byte came or the last answer was made.
    last: AtomicU64,
    /// Milliseconds + 1 at which the first byte of a request came; 0 where none is being read.
    reading_since: AtomicU64,
    in_flight: AtomicU32,
    had_request: AtomicBool,
}

/// Why a connection should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    Headers,
    Idle,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            last: AtomicU64::new(0),
            reading_since: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            had_request: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn bytes_came(&self) {
        let now = self.now();
        self.last.store(now, Ordering::Relaxed);
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            let start = now.saturating_add(1);
            // Only the first byte starts the clock.
            let _ = self
                .reading_since
                .compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The headers of a request are complete; ends with the guard.
    pub(super) fn request(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.had_request.store(true, Ordering::Relaxed);
        self.reading_since.store(0, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Whether the connection has outstayed a limit. `multiplexed`: HTTP/2, where bytes between requests are no
    /// request that is being sent (pings, window updates).
    pub(super) fn overdue(&self, headers: Duration, idle: Duration, multiplexed: bool) -> Option<Overdue> {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let now = self.now();
        let since = |moment: u64| Duration::from_millis(now.saturating_sub(moment));
        let reading = self.reading_since.load(Ordering::Relaxed);
        let first = !self.had_request.load(Ordering::Relaxed);
        if reading > 0 && (first || !multiplexed) && since(reading) > headers {
            return Some(Overdue::Headers);
        }
        (since(self.last.load(Ordering::Relaxed)) > idle).then_some(Overdue::Idle)
    }
}

/// A request that is being answered.
pub(super) struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let activity = &self.0;
        activity.last.store(activity.now(), Ordering::Relaxed);
        activity.reading_since.store(0, Ordering::Relaxed);
        activity.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that tells its activity what comes in.
pub(super) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.bytes_came();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
