//! Options that a release refuses together, after its parser has taken each of them.

use std::collections::HashMap;

use super::super::options::Entrypoint;
use super::super::value::Value;
use super::Parsed;
use crate::engine::Version;

impl Parsed<'_> {
    /// What the release refuses once its parser is done, as a phrase; `None` where it starts, or where words that
    /// cannot be read may set what is missing.
    ///
    /// `validate_parsed_serve_args` and the command of `serve` in each release.
    #[must_use]
    pub fn refused_together(&self) -> Option<&'static str> {
        let unknown = self.open.is_some()
            || self.unread_config.is_some()
            || self
                .settings
                .iter()
                .any(|setting| setting.value == Value::Unresolved);
        if unknown || self.error.is_some() {
            return None;
        }
        let serve = self.entrypoint == Entrypoint::Serve;
        self.without_what_it_needs()
            .or_else(|| serve.then(|| self.excluded()).flatten())
    }

    fn since(&self, minor: u16, patch: u16) -> bool {
        self.release >= Version::new(0, minor, patch)
    }

    fn has_text(&self, option: &str) -> bool {
        self.text(option).is_some_and(|text| !text.is_empty())
    }

    fn is_set(&self, option: &str) -> bool {
        matches!(
            self.last(option).map(|setting| setting.value),
            Some(Value::Int(_))
        )
    }

    fn without_what_it_needs(&self) -> Option<&'static str> {
        let tools = self.flag("--enable-auto-tool-choice");
        let reasoning = self.flag("--enable-reasoning") && !self.since(9, 0);
        if tools && !self.has_text("--tool-call-parser") {
            return Some("--enable-auto-tool-choice needs --tool-call-parser");
        }
        if reasoning && !self.has_text("--reasoning-parser") {
            return Some("--enable-reasoning needs --reasoning-parser");
        }
        if reasoning && tools && !self.since(8, 0) {
            return Some("--enable-auto-tool-choice and --enable-reasoning exclude each other");
        }
        if self.since(9, 0) && self.flag("--enable-prompt-embeds") && self.flag("--enable-prompt-adapter") {
            return Some("--enable-prompt-embeds and --enable-prompt-adapter exclude each other");
        }
        if self.since(11, 0) && self.flag("--enable-log-outputs") && !self.flag("--enable-log-requests") {
            return Some("--enable-log-outputs needs --enable-log-requests");
        }
        if self
            .last("--reasoning-effort-map")
            .is_some_and(|map| !is_effort_map(&map.text))
        {
            return Some("--reasoning-effort-map is no object of efforts and texts");
        }
        if self
            .int("--sse-keep-alive-interval")
            .is_some_and(|interval| interval < 0)
        {
            return Some("--sse-keep-alive-interval is below 0");
        }
        if self.flag("--enable-per-request-metrics") && self.flag("--disable-log-stats") {
            return Some("--enable-per-request-metrics and --disable-log-stats exclude each other");
        }
        None
    }

    /// `validate_multi_port_external_lb_args`.
    fn multi_port(&self) -> Option<&'static str> {
        if self.has_text("--uds") {
            return Some("--data-parallel-multi-port-external-lb and --uds exclude each other");
        }
        if self.has_text("--ssl-keyfile") != self.has_text("--ssl-certfile") {
            return Some("--ssl-keyfile and --ssl-certfile belong together");
        }
        if self.int("--api-server-count").is_some_and(|servers| servers != 1) {
            return Some("--data-parallel-multi-port-external-lb needs an --api-server-count of 1");
        }
        let size = self.int("--data-parallel-size").unwrap_or(1);
        let local = self.int("--data-parallel-size-local").unwrap_or(0);
        let divides = local >= 2 && local <= size && size % local == 0;
        (!divides).then_some(
            "--data-parallel-multi-port-external-lb needs a --data-parallel-size-local of at least 2 that divides --data-parallel-size",
        )
    }

    fn excluded(&self) -> Option<&'static str> {
        if self.since(18, 0) && self.flag("--grpc") {
            return None;
        }
        let servers = self.int("--api-server-count");
        let headless = self.flag("--headless");
        let many = "--headless and an --api-server-count above 1 exclude each other";
        if headless && servers.is_some_and(|servers| servers > i128::from(!self.since(16, 0))) {
            return Some(if self.since(16, 0) {
                "--headless and --api-server-count exclude each other"
            } else {
                many
            });
        }
        let rank = self
            .int("--data-parallel-start-rank")
            .is_some_and(|rank| rank != 0);
        if self.release < Version::new(0, 10, 0) && self.since(9, 2) {
            let started = !headless && servers.is_none_or(|servers| servers >= 1);
            return (started && rank).then_some("--data-parallel-start-rank needs --headless");
        }
        if !self.since(16, 0) {
            return None;
        }
        let multi_port = self.flag("--data-parallel-multi-port-external-lb");
        let external = self.flag("--data-parallel-external-lb") || self.is_set("--data-parallel-rank");
        let hybrid = self.flag("--data-parallel-hybrid-lb")
            || !multi_port && self.is_set("--data-parallel-start-rank");
        if multi_port && let Some(why) = self.multi_port() {
            return Some(why);
        }
        let modes = [multi_port, external, hybrid]
            .into_iter()
            .filter(|mode| *mode)
            .count();
        (modes > 1).then_some("more than one way to balance between data-parallel ranks")
    }
}

/// `validate_reasoning_effort_map`.
fn is_effort_map(text: &str) -> bool {
    const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    match serde_json::from_str::<Option<HashMap<String, String>>>(text) {
        Ok(Some(map)) => map.keys().all(|effort| EFFORTS.contains(&&**effort)),
        Ok(None) => true,
        Err(_) => false,
    }
}
