//! Everything that is not a review: the right status, a text that names the value, and the connection goes on.

use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Answered, metric, post};
use crate::fake::{Running, pod_review};

/// A review with one change, as bytes.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut review = pod_review("chat");
    change(&mut review);
    review.to_string()
}

#[tokio::test]
async fn bodies_that_are_no_review_get_400_and_a_reason() {
    let server = Running::start(|_| ()).await;
    let mut connection = server.trust.http1(server.address).await;
    let whole = pod_review("chat").to_string();
    let cases: Vec<(&str, String, &[&str])> = vec![
        ("empty", String::new(), &["empty"]),
        (
            "truncated",
            whole[..whole.len() / 2].to_owned(),
            &["EOF", "line 1 column"],
        ),
        ("not JSON", "apiVersion: v1".to_owned(), &["line 1 column 1"]),
        ("NaN", "NaN".to_owned(), &["line 1"]),
        (
            "a number beyond all",
            changed(|r| r["request"]["dryRun"] = json!("X")).replace("\"X\"", "1e309"),
            &["line 1 column"],
        ),
        (
            "v1beta1",
            changed(|r| r["apiVersion"] = json!("admission.k8s.io/v1beta1")),
            &["v1beta1", "admission.k8s.io/v1\""],
        ),
        (
            "other kind",
            changed(|r| r["kind"] = json!("ConversionReview")),
            &["ConversionReview", "AdmissionReview"],
        ),
        (
            "no version",
            "{}".to_owned(),
            &["apiVersion", "admission.k8s.io/v1"],
        ),
        (
            "no request",
            changed(|r| r["request"] = Value::Null),
            &["request is missing"],
        ),
        (
            "no uid",
            changed(|r| r["request"]["uid"] = json!("")),
            &["request.uid"],
        ),
        (
            "no operation",
            changed(|r| r["request"]["operation"] = json!("")),
            &["request.operation"],
        ),
        (
            "odd operation",
            changed(|r| r["request"]["operation"] = json!("PATCH")),
            &["\"PATCH\"", "CREATE"],
        ),
        ("nested envelope", "[".repeat(100_000), &["line 1"]),
    ];
    let most = cases.len();
    for (name, body, expected) in cases {
        for path in ["/validate", "/mutate"] {
            let request = post(path, "application/json; charset=utf-8", body.clone());
            let answer = Answered::of(connection.send_request(request).await.unwrap()).await;
            assert_eq!(answer.status, 400, "{name}: {}", answer.text);
            for text in expected {
                assert!(
                    answer.text.contains(text),
                    "{name}: {text} is not in {}",
                    answer.text
                );
            }
            connection.ready().await.unwrap();
        }
    }
    let refused = metric(
        server.status,
        "vramgate_http_refused_total{reason=\"bad-request\"}",
    )
    .await;
    assert_eq!(refused, 2 * most as u64);
    let good = post("/validate", "application/json", pod_review("chat").to_string());
    let answer = Answered::of(connection.send_request(good).await.unwrap()).await;
    assert_eq!(
        answer.review()["allowed"],
        true,
        "the same connection serves a good review afterwards"
    );
}

#[tokio::test]
async fn deep_nesting_is_refused_as_invalid_and_passes_where_it_is_not_ours() {
    let server = Running::start(|_| ()).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut connection = server.trust.http1(server.address).await;
    let body =
        changed(|r| r["request"]["object"]["spec"]["containers"] = json!("DEEP")).replace("\"DEEP\"", &deep);
    let answer = connection
        .send_request(post("/validate", "application/json", body.clone()))
        .await
        .unwrap();
    let review = Answered::of(answer).await.review();
    assert_eq!(
        (&review["allowed"], &review["status"]["code"]),
        (&json!(false), &json!(422))
    );
    let field = &review["status"]["details"]["causes"][0]["field"];
    assert!(
        field.as_str().unwrap().starts_with("spec.containers[0]"),
        "{field}"
    );
    let body = body.replace("\"kind\":\"Pod\"", "\"kind\":\"Lease\"");
    let answer = connection
        .send_request(post("/validate", "application/json", body))
        .await
        .unwrap();
    assert_eq!(Answered::of(answer).await.review()["allowed"], true);
}

#[tokio::test]
async fn wrong_method_path_and_media_type_have_their_status() {
    let server = Running::start(|_| ()).await;
    let mut connection = server.trust.http1(server.address).await;
    for (method, path, media_type, status) in [
        (Method::GET, "/validate", "application/json", 405),
        (Method::PUT, "/mutate", "application/json", 405),
        (Method::POST, "/", "application/json", 404),
        (Method::POST, "/validate/", "application/json", 404),
        (Method::GET, "/metrics", "application/json", 404),
        (Method::POST, "/validate", "application/yaml", 415),
        (Method::POST, "/validate", "", 415),
        (Method::POST, "/validate", "text/application/json", 415),
        (Method::POST, "/validate", "Application/JSON;charset=UTF-8", 200),
    ] {
        // A large body on each: it has to be read before the refusal.
        let mut request = post(
            path,
            media_type,
            format!("{}{}", pod_review("chat"), " ".repeat(1 << 20)),
        );
        *request.method_mut() = method.clone();
        let answer = Answered::of(connection.send_request(request).await.unwrap()).await;
        assert_eq!(
            answer.status, status,
            "{method} {path} {media_type}: {}",
            answer.text
        );
        if status == 405 {
            assert_eq!(answer.headers["allow"], "POST");
        }
        connection.ready().await.unwrap();
    }
}

#[tokio::test]
async fn a_body_above_the_limit_is_read_and_then_refused() {
    let server = Running::start(|settings| settings.body_limit = 4 << 20).await;
    let review = pod_review("chat").to_string();
    let padded = |size: usize| format!("{review}{}", " ".repeat(size - review.len()));
    let mut connection = server.trust.http1(server.address).await;
    for (size, status) in [
        (4 << 20, 200),
        ((4 << 20) + 1, 413),
        (16 << 20, 413),
        (1 << 20, 200),
    ] {
        let request = post("/validate", "application/json", padded(size));
        let answer = Answered::of(connection.send_request(request).await.unwrap()).await;
        assert_eq!(answer.status, status, "{size} bytes: {}", answer.text);
        connection.ready().await.unwrap();
    }
    let mut connection = server.trust.http2(server.address).await;
    for (size, status) in [(16 << 20, 413), (1 << 20, 200)] {
        let request = post("/validate", "application/json", padded(size));
        let answer = Answered::of(connection.send_request(request).await.unwrap()).await;
        assert_eq!(answer.status, status, "{size} bytes over HTTP/2: {}", answer.text);
    }
}

#[tokio::test]
async fn a_body_without_end_is_not_read_for_ever() {
    let server = Running::start(|settings| {
        settings.body_limit = 64 << 10;
        settings.drain_limit = 1 << 20;
    })
    .await;
    let mut stream = server.trust.tls(server.address, &["http/1.1"]).await;
    let head = "POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut sent = 0;
    while sent < 1_000 && stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 1_000, "the server read {sent} chunks of 64 KiB");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    let answer = server.trust.ask(server.address, &pod_review("chat")).await;
    assert_eq!(answer.review()["allowed"], true);
}
