//! Why something is not known, as a text of bounded length: it is copied into every word that hangs on it.

use std::borrow::Cow;

/// Bytes of a reason, or of a name within one, that are kept.
const LONGEST: usize = 256;

/// `text`, cut off with `…` where it is too long to be copied freely.
pub(crate) fn brief(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}…", &text[..end]))
}

/// The same of a text that is there already.
pub(crate) fn brief_owned(text: String) -> String {
    match brief(&text) {
        Cow::Owned(short) => short,
        Cow::Borrowed(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, brief};

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(brief("short"), "short");
        let text = "é".repeat(LONGEST);
        let cut = brief(&text);
        assert!(cut.ends_with("é…") && cut.len() <= LONGEST + '…'.len_utf8());
    }
}
