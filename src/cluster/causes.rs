//! An error with what caused it, in one line: "client error (Connect)" alone helps nobody.

use std::error::Error;
use std::fmt;

/// Prints the error and its causes, leaving out what was said already.
pub(super) struct Causes<'a>(pub(super) &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said.push_str(&text);
            }
            next = cause.source();
        }
        Ok(())
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
