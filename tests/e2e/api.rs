//! The API server over HTTP, with the parts of an answer that a webhook shapes: status, message, causes, warnings.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use axum::http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
});

/// A client with one identity.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
}

/// What the API server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    /// Texts of the `Warning` headers.
    pub warnings: Vec<String>,
}

impl Api {
    pub fn from_kubeconfig(file: &Path) -> Self {
        RUNTIME.block_on(async {
            let kubeconfig = Kubeconfig::read_from(file).expect("the kubeconfig is readable");
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .expect("the kubeconfig is usable");
            Self {
                client: kube::Client::try_from(config).expect("a client can be made"),
            }
        })
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Result<Answer, kube::Error> {
        let response = self.client.send(request.map(Body::from)).await?;
        let status = response.status().as_u16();
        let warnings = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|value| warning_text(&String::from_utf8_lossy(value.as_bytes())))
            .collect();
        let bytes = response.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer {
            status,
            body,
            warnings,
        })
    }

    fn request(
        method: &Method,
        path: &str,
        kind: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Request<Vec<u8>> {
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body).unwrap()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(bytes).unwrap()
    }

    fn call(
        &self,
        method: &Method,
        path: &str,
        kind: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let request = Self::request(method, path, kind, headers, body);
        RUNTIME
            .block_on(self.send(request))
            .unwrap_or_else(|error| panic!("{method} {path}: the API server did not answer: {error}"))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call(&Method::GET, path, "application/json", &[], &Value::Null)
    }

    /// The answer, if it is 200; nothing as well while nothing listens.
    pub fn get_ok(&self, path: &str) -> Option<Answer> {
        let request = Self::request(&Method::GET, path, "application/json", &[], &Value::Null);
        let answer = RUNTIME.block_on(self.send(request)).ok()?;
        (answer.status == 200).then_some(answer)
    }

    /// Whether `path` answers 200; false as well while nothing listens.
    pub fn is_ok(&self, path: &str) -> bool {
        self.get_ok(path).is_some()
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.call(&Method::POST, path, "application/json", &[], body)
    }

    /// A strategic merge patch.
    pub fn patch(&self, path: &str, change: &Value) -> Answer {
        self.call(
            &Method::PATCH,
            path,
            "application/strategic-merge-patch+json",
            &[],
            change,
        )
    }

    /// A merge patch, which custom resources take.
    pub fn merge(&self, path: &str, change: &Value) -> Answer {
        self.call(&Method::PATCH, path, "application/merge-patch+json", &[], change)
    }

    /// Creates as somebody else.
    pub fn post_as(&self, user: &str, group: &str, path: &str, body: &Value) -> Answer {
        let headers = [("impersonate-user", user), ("impersonate-group", group)];
        self.call(&Method::POST, path, "application/json", &headers, body)
    }

    /// Sends all creations at once, each on its own, and waits for all answers. An entry is `Err` where the
    /// connection broke.
    pub fn post_at_once(&self, path: &str, bodies: &[Value]) -> Vec<Result<Answer, String>> {
        RUNTIME.block_on(async {
            let calls: Vec<_> = bodies
                .iter()
                .map(|body| {
                    let api = self.clone();
                    let request = Self::request(&Method::POST, path, "application/json", &[], body);
                    tokio::spawn(async move { api.send(request).await.map_err(|error| error.to_string()) })
                })
                .collect();
            let mut answers = Vec::new();
            for call in calls {
                answers.push(call.await.expect("the call does not panic"));
            }
            answers
        })
    }

    /// Deletes with a grace period in seconds.
    pub fn delete(&self, path: &str, grace: u32) -> Answer {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace,
            "propagationPolicy": "Background"});
        self.call(&Method::DELETE, path, "application/json", &[], &options)
    }
}

/// The text of a header `299 - "text"`.
fn warning_text(header: &str) -> String {
    header
        .split_once('"')
        .map_or(header, |(_, rest)| rest.trim_end_matches('"'))
        .replace("\\\"", "\"")
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The message of a refusal as it came, or the whole body.
    pub fn text(&self) -> String {
        self.body["message"]
            .as_str()
            .map_or_else(|| self.body.to_string(), str::to_owned)
    }

    /// The part of a refusal that the webhook wrote.
    pub fn reason(&self) -> String {
        own_words(&self.text()).to_owned()
    }

    /// Asserts that the object was let through.
    #[track_caller]
    pub fn admitted(self, what: &str) -> Self {
        assert!(
            self.is_success(),
            "{what} should be admitted; answered {}:\n{}",
            self.status,
            self.text()
        );
        self
    }

    /// Asserts a refusal by vramgate with all of `words` in its text, and the form that each refusal has.
    #[track_caller]
    pub fn denied(self, what: &str, words: &[&str]) -> Self {
        assert!(
            !self.is_success(),
            "{what} should be denied with {words:?}, and was admitted"
        );
        let text = self.text();
        assert_eq!(self.status, 403, "{what}: a denial has status 403:\n{text}");
        assert!(
            text.contains("denied the request: "),
            "{what}: not a denial by a webhook:\n{text}"
        );
        for word in words {
            assert!(
                text.contains(word),
                "{what}: the denial lacks \"{word}\":\n{text}"
            );
        }
        assert_first_line(&text);
        assert_eq!(self.body["reason"], "Forbidden", "{what}: {}", self.body);
        let causes = self.body["details"]["causes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert!(!causes.is_empty(), "{what}: a denial has causes: {}", self.body);
        for cause in causes {
            let field = cause["field"].as_str().unwrap_or_default();
            assert!(!field.is_empty(), "{what}: a cause names its field: {cause}");
        }
        self
    }

    /// Asserts that a warning, or the denial, holds `word`.
    #[track_caller]
    pub fn says(self, what: &str, word: &str) -> Self {
        let found = self.warnings.iter().any(|warning| warning.contains(word)) || self.text().contains(word);
        assert!(
            found,
            "{what}: nobody says \"{word}\"; warnings {:?}; {}",
            self.warnings,
            self.text()
        );
        self
    }

    /// Asserts that no warning holds `word`.
    #[track_caller]
    pub fn without_warning(self, what: &str, word: &str) -> Self {
        let found = self.warnings.iter().any(|warning| warning.contains(word));
        assert!(!found, "{what}: a warning holds \"{word}\": {:?}", self.warnings);
        self
    }
}

/// What follows the API server's own introduction of a denial.
pub fn own_words(text: &str) -> &str {
    text.split_once("denied the request: ")
        .map_or(text, |(_, own)| own)
}

/// The promise about each denial: tools cut all but its first line.
#[track_caller]
pub fn assert_first_line(text: &str) {
    let first = own_words(text).lines().next().unwrap_or_default();
    assert!(
        first.chars().count() < 256,
        "the first line has {} characters: {first}",
        first.chars().count()
    );
    let code = first.find("VG").map(|at| &first[at..]);
    let named =
        code.is_some_and(|code| code.len() >= 5 && code.as_bytes()[2..5].iter().all(u8::is_ascii_digit));
    assert!(named, "the first line names no code: {first}");
}

/// Asks again until `question` gives an answer.
#[track_caller]
pub fn eventually<T>(what: &str, seconds: u64, mut question: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {seconds} s");
        std::thread::sleep(Duration::from_millis(50));
    }
}
