//! An error with what caused it, in one line: "client error (Connect)" alone helps nobody.

use std::error::Error;
use std::fmt;

use kube::core::Status;

/// Prints the error and its causes, leaving out what was said already.
pub(super) struct Causes<'a>(pub(super) &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = text(self.0);
        f.write_str(&said)?;
        let mut last = self.0;
        // A refusal is said whole by `text`; its source is the same once more.
        while refusal(last).is_none()
            && let Some(cause) = last.source()
        {
            let more = text(cause);
            if !said.contains(&more) {
                write!(f, ": {more}")?;
                said.push_str(&more);
            }
            last = cause;
        }
        Ok(())
    }
}

/// What one error says by itself. The client library prints a refusal of the API server with all its fields.
fn text(error: &(dyn Error + 'static)) -> String {
    refusal(error).map_or_else(
        || error.to_string(),
        |status| {
            let message = if status.message.is_empty() {
                &status.reason
            } else {
                &status.message
            };
            format!("the API server answers {}: {message}", status.code)
        },
    )
}

fn refusal<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn a_refusal_is_said_in_the_api_servers_own_words() {
        let status = serde_json::json!({"code": 403, "message": "pods is forbidden", "reason": "Forbidden"});
        let error = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()));
        assert_eq!(
            Causes(&error).to_string(),
            "the API server answers 403: pods is forbidden"
        );
    }

    #[test]
    fn each_cause_is_said_once() {
        let link = |text, source| Link {
            text,
            source: Some(Box::new(source)),
        };
        let last = Link {
            text: "Connection refused",
            source: None,
        };
        let error = link(
            "ServiceError: client error",
            link("client error", link("tcp connect error", last)),
        );
        let text = Causes(&error).to_string();
        assert_eq!(
            text,
            "ServiceError: client error: tcp connect error: Connection refused"
        );
    }
}
