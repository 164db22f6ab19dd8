use super::*;

fn client() -> Client {
    Client {
        address: Address::Url("https://127.0.0.1:8443".to_owned()),
        ca: "Q0E=".to_owned(),
    }
}

fn entries() -> Vec<Value> {
    let mut entries = Vec::new();
    for configuration in [mutating(&client()), validating(&client())] {
        entries.extend(configuration["webhooks"].as_array().unwrap().clone());
    }
    entries
}

#[test]
fn only_the_entry_for_pods_can_hold_anything_up() {
    let failing: Vec<_> = entries()
        .iter()
        .filter(|entry| entry["failurePolicy"] == "Fail")
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(failing, ["pods.vramgate.io"]);
}

#[test]
fn every_entry_is_narrowed_and_waits_at_most_three_seconds() {
    for entry in entries() {
        assert!(entry["timeoutSeconds"].as_u64().unwrap() <= 3);
        assert!(!entry["matchConditions"].as_array().unwrap().is_empty());
        assert!(
            entry["name"].as_str().unwrap().matches('.').count() >= 2,
            "the API server wants three labels"
        );
        for condition in entry["matchConditions"].as_array().unwrap() {
            let expression = condition["expression"].as_str().unwrap();
            for object in ["object.spec", "object.metadata", "oldObject.spec", "c.resources"] {
                assert!(
                    !expression.contains(object),
                    "{object} may be absent: {expression}"
                );
            }
        }
    }
}

#[test]
fn paths_are_appended_to_the_base() {
    let validate = validating(&client());
    assert_eq!(
        validate["webhooks"][0]["clientConfig"]["url"],
        "https://127.0.0.1:8443/validate"
    );
    assert_eq!(
        mutating(&client())["webhooks"][0]["clientConfig"]["url"],
        "https://127.0.0.1:8443/mutate"
    );
    let service = Client {
        address: service_of("vramgate-system/vramgate")
            .map_err(|failure| failure.to_string())
            .unwrap(),
        ca: String::new(),
    };
    assert_eq!(
        service.config("/validate")["service"],
        json!({"namespace": "vramgate-system", "name": "vramgate", "path": "/validate", "port": 443})
    );
}

#[test]
fn addresses_that_the_api_server_would_refuse_are_refused_here() {
    assert_eq!(
        base_url("https://host:8443/")
            .map_err(|failure| failure.to_string())
            .unwrap(),
        "https://host:8443"
    );
    for url in [
        "http://host",
        "host:8443",
        "https://",
        "https:///x",
        "https://u@host",
        "https://h?x",
        "https://h#x",
    ] {
        assert!(base_url(url).is_err(), "{url}");
    }
    for service in ["", "name", "/name", "ns/", "ns/name/x", "NS/name", "-a/b", "a/b-"] {
        assert!(service_of(service).is_err(), "{service}");
    }
}

#[test]
fn the_yaml_reads_back_as_what_was_written() {
    let registrations = [mutating(&client()), validating(&client())];
    let text = yaml(&registrations)
        .map_err(|failure| failure.to_string())
        .unwrap();
    let objects = crate::manifest::objects(text.as_bytes(), "out", crate::manifest::Limits::INPUT).unwrap();
    let read: Vec<_> = objects.into_iter().map(|object| object.value).collect();
    assert_eq!(read, registrations);
}
