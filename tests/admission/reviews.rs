//! What a review is answered, also when something goes wrong on our side.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use serde_json::json;

use crate::client::{Answered, metric, post, validate};
use crate::fake::{Running, deployment_review, pod_review};

#[tokio::test]
async fn verdicts_reach_the_wire() {
    let server = Running::start(|_| ()).await;
    let admitted = server
        .trust
        .ask(server.address, &pod_review("chat"))
        .await
        .review();
    assert_eq!(
        admitted,
        json!({"uid": "review-chat", "allowed": true, "auditAnnotations": {"verdict": "admit"}})
    );
    let denied = server
        .trust
        .ask(server.address, &pod_review("full"))
        .await
        .review();
    assert_eq!(
        (&denied["uid"], &denied["allowed"]),
        (&json!("review-full"), &json!(false))
    );
    assert!(
        denied["status"]["message"]
            .as_str()
            .unwrap()
            .starts_with("VG201: "),
        "{denied}"
    );
    assert_eq!(
        denied["status"]["details"]["causes"][0]["field"],
        "spec.containers[0].args[1]"
    );
    assert_eq!(*server.decider.reserved.lock().unwrap(), ["uid-chat"]);
    assert!(server.released().is_empty());
    for line in [
        "vramgate_reviews_total{endpoint=\"validate\",kind=\"Pod\",verdict=\"admit\"}",
        "vramgate_reviews_total{endpoint=\"validate\",kind=\"Pod\",verdict=\"deny\"}",
        "vramgate_findings_total{code=\"VG201\",severity=\"error\"}",
    ] {
        assert_eq!(metric(server.status, line).await, 1, "{line}");
    }
}

#[tokio::test]
async fn a_dry_run_reserves_nothing() {
    let server = Running::start(|_| ()).await;
    let mut review = pod_review("chat");
    review["request"]["dryRun"] = json!(true);
    assert_eq!(
        server.trust.ask(server.address, &review).await.review()["allowed"],
        true
    );
    let review = deployment_review("chat");
    assert_eq!(
        server.trust.ask(server.address, &review).await.review()["allowed"],
        true
    );
    assert_eq!(server.decider.decided.load(Ordering::SeqCst), 2);
    assert!(server.decider.reserved.lock().unwrap().is_empty());
}

#[tokio::test]
async fn mutate_admits_without_a_patch() {
    let server = Running::start(|_| ()).await;
    let mut connection = server.trust.http1(server.address).await;
    let request = post("/mutate", "application/json", pod_review("full").to_string());
    let review = Answered::of(connection.send_request(request).await.unwrap())
        .await
        .review();
    assert_eq!(review, json!({"uid": "review-full", "allowed": true}));
    assert_eq!(server.decider.decided.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_panic_denies_the_pod_and_the_process_goes_on() {
    let server = Running::start(|_| ()).await;
    let mut connection = server.trust.http1(server.address).await;
    for _ in 0..3 {
        let answer = connection
            .send_request(validate(&pod_review("panics")))
            .await
            .unwrap();
        let review = Answered::of(answer).await.review();
        assert_eq!(
            (&review["allowed"], &review["status"]["code"]),
            (&json!(false), &json!(500))
        );
        connection.ready().await.unwrap();
    }
    let answer = connection
        .send_request(validate(&deployment_review("panics")))
        .await
        .unwrap();
    assert_eq!(
        Answered::of(answer).await.status,
        500,
        "failurePolicy decides where only advice is at stake"
    );
    connection.ready().await.unwrap();
    let answer = connection
        .send_request(validate(&pod_review("chat")))
        .await
        .unwrap();
    assert_eq!(Answered::of(answer).await.review()["allowed"], true);
    assert_eq!(metric(server.status, "vramgate_faults_total").await, 4);
}

#[tokio::test]
async fn the_own_deadline_brings_a_decided_answer() {
    let server = Running::start(|settings| {
        settings.deadline = Duration::from_millis(100);
        settings.look_up_timeout = Duration::from_mins(1);
    })
    .await;
    let review = server
        .trust
        .ask(server.address, &pod_review("slow"))
        .await
        .review();
    assert_eq!(review["allowed"], false);
    assert!(
        review["status"]["message"]
            .as_str()
            .unwrap()
            .starts_with("VG901: "),
        "{review}"
    );
    let review = server
        .trust
        .ask(server.address, &deployment_review("slow"))
        .await
        .review();
    assert_eq!(review["allowed"], true);
    assert!(
        review["warnings"][0].as_str().unwrap().starts_with("VG901: "),
        "{review}"
    );
    assert_eq!(server.decider.decided.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_look_up_that_takes_too_long_is_given_up_and_the_rest_is_judged() {
    let server = Running::start(|settings| settings.look_up_timeout = Duration::from_millis(50)).await;
    let review = server
        .trust
        .ask(server.address, &pod_review("slow"))
        .await
        .review();
    assert_eq!(review["allowed"], true);
    assert_eq!(server.decider.decided.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn before_the_caches_are_filled_only_gpu_pods_wait() {
    let server = Running::start(|_| ()).await;
    server
        .readiness
        .unmet("cluster cache synced", "nodes are being listed");
    let review = server
        .trust
        .ask(server.address, &pod_review("chat"))
        .await
        .review();
    assert_eq!(review["allowed"], false);
    let text = review["status"]["message"].as_str().unwrap();
    assert!(
        text.starts_with("VG901: ") && text.contains("nodes are being listed"),
        "{text}"
    );
    let review = server
        .trust
        .ask(server.address, &pod_review("plain"))
        .await
        .review();
    assert_eq!(review, json!({"uid": "review-plain", "allowed": true}));
    let review = server
        .trust
        .ask(server.address, &deployment_review("chat"))
        .await
        .review();
    assert_eq!(review["allowed"], true);
    assert!(server.decider.reserved.lock().unwrap().is_empty());
    server.readiness.met("cluster cache synced");
    assert_eq!(
        server
            .trust
            .ask(server.address, &pod_review("chat"))
            .await
            .review()["allowed"],
        true
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_before_the_decision_leaves_nothing_behind() {
    let server = Running::start(|settings| settings.look_up_timeout = Duration::from_millis(400)).await;
    for h2 in [false, true] {
        if h2 {
            let mut sender = server.trust.http2(server.address).await;
            let answer = sender.send_request(validate(&pod_review("slow")));
            // The stream is reset while its ConfigMap is looked up.
            assert!(
                tokio::time::timeout(Duration::from_millis(100), answer)
                    .await
                    .is_err()
            );
        } else {
            let stream = server.trust.tls(server.address, &["http/1.1"]).await;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .unwrap();
            let connection = tokio::spawn(connection);
            let answer = sender.send_request(validate(&pod_review("slow")));
            assert!(
                tokio::time::timeout(Duration::from_millis(100), answer)
                    .await
                    .is_err()
            );
            connection.abort();
        }
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(server.decider.decided.load(Ordering::SeqCst), 0);
    assert!(server.decider.reserved.lock().unwrap().is_empty());
}
