//! What a connection may do: protocols, TLS versions, garbage, slowness, and how many there may be.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answered, metric, validate};
use crate::fake::{Running, pod_review};

#[tokio::test]
async fn one_http1_connection_serves_many_reviews() {
    let server = Running::start(|_| ()).await;
    let mut connection = server.trust.http1(server.address).await;
    for round in 0..50 {
        let answer = connection
            .send_request(validate(&pod_review("chat")))
            .await
            .unwrap();
        assert_eq!(
            Answered::of(answer).await.review()["allowed"],
            true,
            "round {round}"
        );
        connection.ready().await.unwrap();
    }
    assert_eq!(
        metric(server.status, "vramgate_connections").await,
        2,
        "this one and the status port's"
    );
}

#[tokio::test]
async fn one_http2_connection_serves_reviews_at_once() {
    let server = Running::start(|_| ()).await;
    let connection = server.trust.http2(server.address).await;
    let rounds = (0..50).map(|_| {
        let mut connection = connection.clone();
        async move {
            Answered::of(
                connection
                    .send_request(validate(&pod_review("full")))
                    .await
                    .unwrap(),
            )
            .await
        }
    });
    for answer in futures::future::join_all(rounds).await {
        assert_eq!(answer.review()["allowed"], false);
    }
}

#[tokio::test]
async fn both_tls_versions_are_spoken_and_the_name_is_checked() {
    let server = Running::start(|_| ()).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let stream = server
            .trust
            .connect(server.address, &["h2", "http/1.1"], &[version])
            .await
            .unwrap();
        let session = stream.get_ref().1;
        assert_eq!(session.protocol_version(), Some(version.version));
        assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
    }
    let stranger = Running::start(|_| ()).await;
    assert!(
        stranger
            .trust
            .connect(server.address, &["h2"], rustls::ALL_VERSIONS)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn garbage_instead_of_a_handshake_ends_one_connection() {
    let server = Running::start(|_| ()).await;
    for garbage in [
        &b"POST /validate HTTP/1.1\r\nhost: x\r\n\r\n"[..],
        &[0x16, 3, 1, 0xff, 0xff, 0, 0],
        &[0; 512],
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the connection stays open");
    }
    assert_eq!(
        metric(
            server.status,
            "vramgate_connections_dropped_total{reason=\"handshake\"}"
        )
        .await,
        3
    );
    let answer = server.trust.ask(server.address, &pod_review("chat")).await;
    assert_eq!(answer.review()["allowed"], true);
}

#[tokio::test]
async fn a_handshake_that_never_comes_is_cut_off() {
    let server = Running::start(|settings| settings.handshake_timeout = Duration::from_millis(100)).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    let line = "vramgate_connections_dropped_total{reason=\"handshake-timeout\"}";
    assert_eq!(metric(server.status, line).await, 1);
}

#[tokio::test]
async fn slow_headers_are_cut_off_but_an_idle_connection_is_kept() {
    let server = Running::start(|settings| {
        settings.header_timeout = Duration::from_millis(200);
        settings.idle_timeout = Duration::from_mins(1);
    })
    .await;
    let mut slow = server.trust.tls(server.address, &["http/1.1"]).await;
    let mut idle = server.trust.http1(server.address).await;
    let mut used = server.trust.http1(server.address).await;
    Answered::of(used.send_request(validate(&pod_review("chat"))).await.unwrap())
        .await
        .review();
    let trickle = async {
        for byte in b"POST /validate HTTP/1.1\r\nhost: x\r\n".iter().cycle() {
            if slow.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), trickle)
        .await
        .expect("a byte now and then keeps it open");
    for connection in [&mut idle, &mut used] {
        let answer = connection
            .send_request(validate(&pod_review("chat")))
            .await
            .unwrap();
        assert_eq!(Answered::of(answer).await.review()["allowed"], true);
    }
    let line = "vramgate_connections_dropped_total{reason=\"header-timeout\"}";
    assert_eq!(metric(server.status, line).await, 1);
}

#[tokio::test]
async fn an_idle_connection_ends_at_last() {
    let server = Running::start(|settings| settings.idle_timeout = Duration::from_millis(200)).await;
    for alpn in ["http/1.1", "h2"] {
        let mut stream = server.trust.tls(server.address, &[alpn]).await;
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{alpn}");
    }
}

#[tokio::test]
async fn a_slow_body_gets_408() {
    let server = Running::start(|settings| settings.body_timeout = Duration::from_millis(200)).await;
    let mut stream = server.trust.tls(server.address, &["http/1.1"]).await;
    let head = "POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer))
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
}

#[tokio::test]
async fn what_is_above_the_cap_waits_and_is_not_refused() {
    let server = Running::start(|settings| settings.connections = 2).await;
    let first = server.trust.tls(server.address, &["http/1.1"]).await;
    let _second = server.trust.tls(server.address, &["http/1.1"]).await;
    let review = pod_review("chat");
    let third = server.trust.ask(server.address, &review);
    tokio::pin!(third);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), third.as_mut())
            .await
            .is_err()
    );
    drop(first);
    let answer = tokio::time::timeout(Duration::from_secs(5), third).await.unwrap();
    assert_eq!(answer.review()["allowed"], true);
}
