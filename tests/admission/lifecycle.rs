//! Ready, not ready, another certificate, and the end.

use std::time::Duration;

use tokio::net::TcpStream;
use vramgate::server::{Certificates, certs};

use crate::client::{Answered, Trust, get, metric, validate};
use crate::fake::{Running, pod_review};

#[tokio::test]
async fn the_status_port_tells_how_it_is() {
    let server = Running::start(|_| ()).await;
    assert_eq!(get(server.status, "/livez").await.status, 200);
    assert_eq!(get(server.status, "/readyz").await.status, 200);
    assert_eq!(get(server.status, "/").await.text, "<p>devices</p>");
    assert_eq!(get(server.status, "/nothing").await.status, 404);
    let metrics = get(server.status, "/metrics").await;
    assert!(
        metrics.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let life = metrics
        .text
        .lines()
        .find_map(|line| line.strip_prefix("vramgate_certificate_expires_in_seconds "))
        .expect("the certificate's life is told");
    assert!(life.parse::<f64>().unwrap() > 3_600.0, "{life}");
    server
        .readiness
        .unmet("cluster cache synced", "pods are being listed");
    let answer = get(server.status, "/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer
            .text
            .contains("cluster cache synced: pods are being listed"),
        "{}",
        answer.text
    );
    assert_eq!(get(server.status, "/livez").await.status, 200);
}

#[tokio::test]
async fn the_end_is_graceful() {
    let mut server = Running::start(|settings| {
        settings.lame_duck = Duration::from_millis(500);
        settings.look_up_timeout = Duration::from_millis(1_200);
    })
    .await;
    let mut kept = server.trust.http1(server.address).await;
    Answered::of(kept.send_request(validate(&pod_review("chat"))).await.unwrap())
        .await
        .review();
    let ended = server.stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = get(server.status, "/readyz").await;
    assert_eq!(
        (answer.status.as_u16(), answer.text.contains("shutting down")),
        (503, true)
    );
    assert_eq!(
        server
            .trust
            .ask(server.address, &pod_review("chat"))
            .await
            .review()["allowed"],
        true
    );
    // This one is still running when accepting ends.
    let running = kept.send_request(validate(&pod_review("slow"))).await.unwrap();
    assert_eq!(Answered::of(running).await.review()["allowed"], true);
    tokio::time::timeout(Duration::from_secs(5), ended)
        .await
        .unwrap()
        .unwrap();
    assert!(
        TcpStream::connect(server.address).await.is_err(),
        "nothing listens any more"
    );
}

#[tokio::test]
async fn another_certificate_is_served_without_a_restart() {
    let dir = std::env::temp_dir().join(format!("vramgate-reload-{}", std::process::id()));
    let (first, second) = (certs::make(&[], 1).unwrap(), certs::make(&[], 2).unwrap());
    first.write(&dir, true).unwrap();
    let certificates = Certificates::from_files(dir.join("tls.crt"), dir.join("tls.key")).unwrap();
    let every =
        |settings: &mut vramgate::server::Settings| settings.certificate_poll = Duration::from_millis(20);
    let server = Running::start_with(certificates, &first.ca_pem, every).await;
    let mut kept = server.trust.http1(server.address).await;
    std::fs::write(dir.join("tls.crt"), "half a certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(metric(server.status, "vramgate_certificate_reload_failures_total").await > 0);
    server
        .trust
        .ask(server.address, &pod_review("chat"))
        .await
        .review();
    second.write(&dir, true).unwrap();
    let renewed = Trust::of(&second.ca_pem);
    let mut answered = false;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if renewed
            .connect(server.address, &["h2"], rustls::ALL_VERSIONS)
            .await
            .is_ok()
        {
            answered = true;
            break;
        }
    }
    assert!(answered, "the second certificate is never served");
    let answer = kept.send_request(validate(&pod_review("chat"))).await.unwrap();
    assert_eq!(
        Answered::of(answer).await.review()["allowed"],
        true,
        "open connections go on"
    );
    std::fs::remove_dir_all(&dir).unwrap();
}
