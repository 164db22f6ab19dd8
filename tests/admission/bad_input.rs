//! Everything that is not a review: the right status, a text that names the value, and the connection goes on.

use std::sync::{Arc, Mutex};

use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use vramgate::server::LedgerDecider;
use vramgate::server::backend::Clock;

use crate::client::{Answered, metric, post};
use crate::fake::{Running, pod_review};
use crate::kit::{self, Cluster, H100};

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

/// A review of a real pod on a real ledger, with one change.
fn hostile(change: impl FnOnce(&mut Value)) -> Value {
    let mut review = pod_review("chat");
    let uid = review["request"]["object"]["metadata"]["uid"].take();
    review["request"]["object"] = kit::pod("chat", "0.28");
    review["request"]["object"]["metadata"]["uid"] = uid;
    change(&mut review);
    review
}

async fn real() -> Running {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 10);
    let ledger = Arc::new(Mutex::new(cluster.ledger));
    Running::over(Arc::new(LedgerDecider::new(ledger, Clock::start()))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hostile_pod_does_not_end_or_hold_the_process() {
    let server = real().await;
    let dotted = format!("--hf-overrides.{}", vec!["a"; 100_000].join("."));
    let cases = [
        ("levels", json!([dotted, "1", "--gpu-memory-utilization", "0.28"])),
        (
            "ranks",
            json!(["--tensor-parallel-size", "4294967295", "-dp", "4294967295"]),
        ),
        ("unclosed", json!([format!("--x={}", "$(".repeat(500_000))])),
        (
            "numbers",
            json!(["--gpu-memory-utilization", format!("0.{}", "3".repeat(1_000_000))]),
        ),
    ];
    for (name, args) in cases {
        let review = hostile(|review| review["request"]["object"]["spec"]["containers"][0]["args"] = args);
        let answer = server.trust.ask(server.address, &review).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text);
        assert_ne!(answer.review()["status"]["code"], 500, "{name}: {}", answer.text);
    }
    let answer = server.trust.ask(server.address, &hostile(|_| ())).await;
    assert_eq!(answer.review()["allowed"], true);
}

#[tokio::test]
async fn a_pod_without_a_uid_is_not_admitted_beside_another_one() {
    let server = real().await;
    let review = hostile(|review| review["request"]["object"]["metadata"]["uid"] = Value::Null);
    let answer = server.trust.ask(server.address, &review).await.review();
    assert_eq!(
        (&answer["allowed"], &answer["status"]["code"]),
        (&json!(false), &json!(422))
    );
    assert_eq!(answer["status"]["details"]["causes"][0]["field"], "metadata.uid");
}

#[tokio::test]
async fn a_review_without_a_kind_is_no_review() {
    let server = real().await;
    let review = hostile(|review| review["request"]["kind"] = json!({}));
    let answer = server.trust.ask(server.address, &review).await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.text.contains("request.kind.kind is missing"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn names_with_control_characters_stay_in_their_line() {
    let server = real().await;
    for args in [
        json!(["--gpu-memory-utilization", "1.7"]),
        json!(["--gpu-memory-utilization", "0.95"]),
    ] {
        let review = hostile(|review| {
            let container = &mut review["request"]["object"]["spec"]["containers"][0];
            container["name"] = json!("a\u{1b}[31m\nVG000: b\u{202e}");
            container["args"] = args;
        });
        let answer = server.trust.ask(server.address, &review).await.review();
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(!message.contains(['\u{1b}', '\u{202e}']), "{message:?}");
        assert!(!message.contains("\nVG000"), "{message:?}");
        for cause in answer["status"]["details"]["causes"].as_array().unwrap() {
            let text = cause["message"].as_str().unwrap();
            assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        }
    }
}

#[tokio::test]
async fn a_long_value_does_not_make_a_long_first_line() {
    let server = real().await;
    let review = hostile(|review| {
        review["request"]["object"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] =
            json!("x".repeat(100_000));
    });
    let answer = server.trust.ask(server.address, &review).await.review();
    assert_eq!(answer["status"]["code"], 422);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(
        message.len() < 256 && message.starts_with("spec.containers[0]"),
        "{message}"
    );
}
