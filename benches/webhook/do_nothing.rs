//! The webhook that does nothing: the floor that any webhook on this stack stands on.
//!
//! The same axum, hyper and rustls as the product, in the same build. Of the review it reads `request.uid` alone, and
//! admits.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{Outcome, tls};

#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

async fn admit(body: Bytes) -> Response {
    match serde_json::from_slice::<Review<'_>>(&body) {
        Ok(Review { request }) => {
            let answer = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{}","allowed":true}}}}"#,
                request.uid
            );
            ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr, certificate: &Path, key: &Path) -> Outcome<()> {
    let acceptor = TlsAcceptor::from(tls::server(certificate, key)?);
    let router = Router::new()
        .route("/validate", post(admit))
        .route("/mutate", post(admit));
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let acceptor = acceptor.clone();
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            // A connection that fails is the client's to report.
            if let Ok(stream) = acceptor.accept(stream).await {
                let connection = Builder::new(TokioExecutor::new());
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}
