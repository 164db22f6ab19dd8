//! A small HTTPS client whose every step can be held up.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Trusts one authority.
#[derive(Clone)]
pub(crate) struct Trust(Arc<rustls::RootCertStore>);

/// What came back.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answered {
    pub(crate) async fn of(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            status: parts.status,
            headers: parts.headers,
            text,
        }
    }

    /// The `response` of an AdmissionReview.
    pub(crate) fn review(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_str::<Value>(&self.text).unwrap()["response"].take()
    }
}

impl Trust {
    pub(crate) fn of(ca_pem: &str) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap())
            .unwrap();
        Self(Arc::new(roots))
    }

    /// A TLS connection that offers these protocols.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        alpn: &[&str],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(Arc::clone(&self.0))
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await
    }

    /// The same with everything that rustls has.
    pub(crate) async fn tls(&self, address: SocketAddr, alpn: &[&str]) -> TlsStream<TcpStream> {
        self.connect(address, alpn, rustls::ALL_VERSIONS).await.unwrap()
    }

    /// One HTTP/1.1 connection that is kept.
    pub(crate) async fn http1(&self, address: SocketAddr) -> http1::SendRequest<Full<Bytes>> {
        let stream = self.tls(address, &["http/1.1"]).await;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// One HTTP/2 connection.
    pub(crate) async fn http2(&self, address: SocketAddr) -> http2::SendRequest<Full<Bytes>> {
        let stream = self.tls(address, &["h2"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    }

    /// One review on a connection of its own.
    pub(crate) async fn ask(&self, address: SocketAddr, review: &Value) -> Answered {
        let mut connection = self.http1(address).await;
        Answered::of(connection.send_request(validate(review)).await.unwrap()).await
    }
}

pub(crate) fn validate(review: &Value) -> Request<Full<Bytes>> {
    post("/validate", "application/json", review.to_string())
}

pub(crate) fn post(path: &str, media_type: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("https://localhost{path}"));
    let request = request
        .header("host", "localhost")
        .header("content-type", media_type);
    request.body(Full::new(body.into())).unwrap()
}

/// `GET` on the plain port.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answered {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().uri(path).header("host", "localhost");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    Answered::of(sender.send_request(request).await.unwrap()).await
}

/// The value of one line of `/metrics`.
pub(crate) async fn metric(address: SocketAddr, line: &str) -> u64 {
    let page = get(address, "/metrics").await.text;
    let value = page
        .lines()
        .find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}
