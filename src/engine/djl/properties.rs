//! Files of Java properties.

use std::collections::BTreeMap;

/// The properties of a file; of a name that stands there twice the last one (`java.util.Properties.load`).
pub(super) fn parse(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        // An odd number of backslashes at its end joins the next line, without the blanks before it.
        while (whole.len() - whole.trim_end_matches('\\').len()) % 2 == 1 {
            whole.pop();
            match lines.next() {
                Some(next) => whole.push_str(next.trim_start()),
                None => break,
            }
        }
        let (name, value) = split(&whole);
        found.insert(unescaped(name), unescaped(value.trim_end()));
    }
    found
}

/// The name ends before the first `=`, `:` or blank that no backslash stands before.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == '=' || c == ':' || c.is_whitespace() {
            let rest = line[at..].trim_start();
            let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
            return (&line[..at], rest.trim_start());
        }
    }
    (line, "")
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match letters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('u') => {
                let digits: String = letters.by_ref().take(4).collect();
                let letter = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse;

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "[a\\\\=:# !u0-9\n\r\t\u{e9}]{0,400}") {
            let found = parse(&text);
            prop_assert!(found.iter().all(|(name, value)| name.len() + value.len() <= text.len() * 3));
        }
    }

    #[test]
    fn properties_are_read_as_java_reads_them() {
        let text = "# note\n! note\n\nengine=Python\r\n  option.model_id : a\\=b \noption.dtype fp16\n\
            option.list=a,\\\n    b\noption.empty=\noption.odd\\ name=x\noption.u=\\u0041\\t1\noption.path=C:\\\\m\nengine=MPI\nend\\";
        let found = parse(text);
        let pairs: Vec<(&str, &str)> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("end", ""),
                ("engine", "MPI"),
                ("option.dtype", "fp16"),
                ("option.empty", ""),
                ("option.list", "a,b"),
                ("option.model_id", "a=b"),
                ("option.odd name", "x"),
                ("option.path", "C:\\m"),
                ("option.u", "A\t1"),
            ]
        );
    }
}
