//! The load: keep-alive HTTP/1.1 over TLS, written by hand, because a full client costs as much as the server that is
//! to be measured and runs on the same cores.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Outcome;

/// A UID as text.
pub(crate) const UID_LENGTH: usize = 36;

/// One request, of which only the UIDs change from one sending to the next.
#[derive(Clone)]
pub(crate) struct Request {
    /// Head and body.
    pub(crate) bytes: Vec<u8>,
    /// Where UIDs stand in `bytes`; the first is the one that the answer must repeat.
    pub(crate) uids: Vec<usize>,
}

impl Request {
    /// Gives each UID a value that no other sending has.
    fn renew(&mut self, worker: u32, number: u64) {
        for (place, &at) in self.uids.iter().enumerate() {
            let uid = format!("{worker:08x}-{place:04x}-4000-8000-{number:012x}");
            self.bytes[at..at + UID_LENGTH].copy_from_slice(uid.as_bytes());
        }
    }
}

/// What an answer must look like to count.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) status: u16,
    pub(crate) text: &'static str,
}

/// Where to send requests.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
}

pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> Outcome<Self> {
        let stream = TcpStream::connect(endpoint.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(endpoint.address.ip());
        let stream = TlsConnector::from(Arc::clone(&endpoint.tls))
            .connect(name, stream)
            .await?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(16 * 1024),
            body: Vec::new(),
        })
    }

    /// Sends and waits for the whole answer: its status and body.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Outcome<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection before its answer was complete".into());
            }
            if let Some(status) = parse(&self.buffer, &mut self.body)? {
                return Ok((status, &self.body));
            }
        }
    }
}

/// Status of an answer whose body is copied to `body`, or `None` while bytes are missing.
fn parse(answer: &[u8], body: &mut Vec<u8>) -> Outcome<Option<u16>> {
    let Some(end) = find(answer, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end])?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .ok_or("an answer without a status")?;
    let status = status.parse()?;
    let rest = &answer[end + 4..];
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            let length: usize = value.trim().parse()?;
            if rest.len() < length {
                return Ok(None);
            }
            body.clear();
            body.extend_from_slice(&rest[..length]);
            return Ok(Some(status));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked") {
            return Ok(unchunk(rest, body)?.then_some(status));
        }
    }
    Err("an answer without a length".into())
}

/// Whether all chunks are there; then they are joined in `body`.
fn unchunk(mut rest: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
    body.clear();
    loop {
        let Some(end) = find(rest, b"\r\n") else {
            return Ok(false);
        };
        let size = std::str::from_utf8(&rest[..end])?
            .split(';')
            .next()
            .unwrap_or_default();
        let size = usize::from_str_radix(size.trim(), 16)?;
        rest = &rest[end + 2..];
        if rest.len() < size + 2 {
            return Ok(false);
        }
        if size == 0 {
            return Ok(true);
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

pub(crate) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// One worker's connection with its request.
pub(crate) struct Worker {
    connection: Connection,
    request: Request,
    expected: Expected,
    number: u32,
    sent: u64,
}

impl Worker {
    /// Opens the connection and sends once, so that handshake and first use lie before the clock starts.
    /// `run` tells rounds apart, so that no UID is sent twice to the same server.
    pub(crate) async fn start(
        endpoint: &Endpoint,
        request: Request,
        expected: Expected,
        number: u32,
        run: u32,
    ) -> Outcome<Self> {
        let connection = Connection::open(endpoint).await?;
        let mut worker = Self {
            connection,
            request,
            expected,
            number,
            sent: u64::from(run) << 28,
        };
        worker.send().await?;
        Ok(worker)
    }

    async fn send(&mut self) -> Outcome<()> {
        self.sent += 1;
        self.request.renew(self.number, self.sent);
        let (status, body) = self.connection.exchange(&self.request.bytes).await?;
        let uid_repeated = self.request.uids.first().is_none_or(|&at| {
            let uid = &self.request.bytes[at..at + UID_LENGTH];
            find(body, uid).is_some()
        });
        if status != self.expected.status
            || find(body, self.expected.text.as_bytes()).is_none()
            || !uid_repeated
        {
            let body = String::from_utf8_lossy(&body[..body.len().min(1500)]).into_owned();
            return Err(format!(
                "the answer is not {} with {}: status {status}, {body}",
                self.expected.status, self.expected.text
            )
            .into());
        }
        Ok(())
    }

    /// Sends one after the other until the time is over; the time that each took.
    pub(crate) async fn work(mut self, until: Instant) -> Outcome<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(64 * 1024);
        let mut before = Instant::now();
        while before < until {
            self.send().await?;
            let after = Instant::now();
            latencies.push(after - before);
            before = after;
        }
        Ok(latencies)
    }
}
