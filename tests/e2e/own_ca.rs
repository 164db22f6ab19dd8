//! A certificate authority of vramgate's own on the real API server: the registrations are empty until a replica is ready,
//! trust what it serves from then on, and come back whatever is done to Secret and registrations.

use serde_json::{Value, json};

use crate::api::eventually;
use crate::chart::{Restored, chart, clear, helm, install, kubeconfig_of, run, values};
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

const SECRET: &str = "/api/v1/namespaces/vramgate/secrets/vramgate-own-ca";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/vramgate";

fn bundle(s: &Scenario) -> Value {
    s.api().get(VALIDATING).body["webhooks"][0]["clientConfig"]["caBundle"].clone()
}

/// A pod for which there is no place is refused through the registrations, which proves that the certificate is believed.
#[track_caller]
fn is_asked(s: &Scenario, when: &str) {
    eventually(when, 40, || {
        let answer = s.dry_run(&Pod::vllm("fourth", "0.30"));
        answer.text().contains("VG201").then_some(())
    });
}

#[test]
fn an_authority_of_its_own_is_made_trusted_and_kept() {
    let s = Scenario::alone("own-ca");
    s.node(GpuNode::h100("own-ca-n1").slots(8));
    let restored = Restored(&s);
    clear(&s);
    let chart = chart(&s);
    let mut wanted = json!({
        "image": {"repository": "registry.example/vramgate"},
        "certificates": {"mode": "builtIn"},
        "policies": [{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "plugin-config"},
            "spec": {"match": {"nodes": {"matchLabels": {"e2e/plugin-config": "here"}}},
                "device": {"pluginConfig": "g16/device-plugin-configs"}}}],
    });
    let file = values(&s, "own-ca.json", &wanted);
    install(&s, &chart, &file);
    assert!(s.api().get(VALIDATING).body["webhooks"].is_null());
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30"))
            .admitted("nobody is asked before a replica is ready");
    }

    let account = kubeconfig_of(&s, "vramgate");
    let url = s
        .cluster
        .with_vramgate(|vramgate| format!("https://127.0.0.1:{}", vramgate.port()));
    let options = [
        "--own-ca",
        "vramgate-own-ca",
        "--keep-registrations",
        &url,
        "--exempt-namespace",
        "kube-system",
    ];
    s.cluster
        .with_vramgate(|vramgate| vramgate.launch_without_certificate(&account, &options));
    is_asked(&s, "the registrations are filled in");
    let entries = s.api().get(VALIDATING).body["webhooks"].as_array().unwrap().len();
    assert!(entries > 20, "{entries}");
    let data = s.api().get(SECRET).body["data"].clone();
    assert!(
        data["signer.key"].is_string() && data["ca.crt"] == bundle(&s),
        "{:?}",
        data["ca.crt"]
    );

    // Somebody takes an entry out and the authority of another.
    let change = json!({"webhooks": [{"name": "pods.vramgate.io", "$patch": "delete"}]});
    s.api().patch(VALIDATING, &change).admitted("a change by hand");
    eventually("the entry is back", 20, || {
        let body = s.api().get(VALIDATING).body;
        (body["webhooks"].as_array()?.len() == entries).then_some(())
    });
    is_asked(&s, "and asked");

    // A new authority by hand: the Secret is emptied.
    let old = bundle(&s);
    let emptied = s.api().patch(SECRET, &json!({"data": Value::Null}));
    assert!(emptied.is_success(), "{}", emptied.text());
    eventually("another authority is trusted", 30, || {
        let new = bundle(&s);
        (new.is_string() && new != old).then_some(())
    });
    is_asked(&s, "by the new authority");

    // Helm leaves both alone.
    let (trusted, data) = (bundle(&s), s.api().get(SECRET).body["data"].clone());
    wanted["replicas"] = 3.into();
    let file = values(&s, "own-ca.json", &wanted);
    run(helm(&s, &["upgrade", "vramgate", &chart, "--values", &file]));
    assert_eq!(bundle(&s), trusted);
    assert_eq!(s.api().get(SECRET).body["data"], data);
    is_asked(&s, "after an upgrade");

    // A broken Secret: what is served is served on, and the reason is told by a replica that starts.
    let broken = json!({"data": {"signer.key": "bm90aGluZw=="}});
    s.api().patch(SECRET, &broken).admitted("a broken Secret");
    s.cluster.with_vramgate(|vramgate| {
        vramgate.kill();
        vramgate.launch_without_certificate(&account, &options);
    });
    eventually("the reason is told", 20, || {
        let (status, text) = s.cluster.with_vramgate(|vramgate| vramgate.readiness())?;
        (status == 503 && text.contains("signer.key") && text.contains("a new CA is made")).then_some(())
    });
    drop(restored);
}
