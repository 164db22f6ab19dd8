//! Files that options and commands name: which ConfigMap holds them, and on which line a key stands.

use crate::engine::reader::Context;

/// A file in words: `/etc/x.yaml (ConfigMap ns/settings key x.yaml)`.
pub(in crate::engine) fn described(context: &Context<'_>, path: &str) -> String {
    if context.invocation.writes(path) {
        return format!("{path}, which the script writes");
    }
    match context.config_map_of(path) {
        Some((name, key)) => format!("{path} (ConfigMap {name} key {key})"),
        None => path.to_owned(),
    }
}

/// The number, from 1 on, of the line with the last top-level key that `first` accepts, or of the key below it that
/// `inner` names; `None` where the text is not laid out in lines of a block mapping.
pub(in crate::engine) fn line_of(
    text: &str,
    first: &dyn Fn(&str) -> bool,
    inner: Option<&str>,
) -> Option<usize> {
    let mut found = None;
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let is_outer = !line.starts_with([' ', '\t', '#', '-']) && !line.trim().is_empty();
        let Some(key) = key_of(line) else {
            inside &= !is_outer;
            continue;
        };
        if is_outer {
            inside = first(key);
            if inside && inner.is_none() {
                found = Some(index + 1);
            }
        } else if inside && inner == Some(key) {
            found = Some(index + 1);
        }
    }
    found
}

/// The number below a key and an inner key as the text has it (`0.80`); `value` where it stands there in another form.
pub(in crate::engine) fn as_written(text: &str, (outer, inner): (&str, &str), value: &str) -> String {
    let line =
        line_of(text, &|key| key == outer, Some(inner)).and_then(|number| text.lines().nth(number - 1));
    let written = line.and_then(|line| line.split_once(':')).map(|(_, rest)| {
        let rest = rest.split(" #").next().unwrap_or_default();
        rest.trim().trim_matches(['"', '\''])
    });
    let same = |written: &&str| {
        written.trim_end_matches('0') == value.trim_end_matches('0')
            || written.trim_end_matches('0').trim_start_matches('0') == value.trim_start_matches('0')
    };
    written.filter(same).unwrap_or(value).to_owned()
}

/// The key of a line of a block mapping, without quotes.
fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let ends = rest.is_empty() || rest.starts_with([' ', '\t']);
    let key = key.trim();
    let bare = key
        .strip_prefix('"')
        .and_then(|key| key.strip_suffix('"'))
        .or_else(|| key.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')))
        .unwrap_or(key);
    (ends && !bare.is_empty() && !key.starts_with(['#', '{', '['])).then_some(bare)
}

/// The number of the only line that holds `text`.
pub(super) fn only_line_with(body: &str, text: &str) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let mut lines = body.lines().enumerate().filter(|(_, line)| line.contains(text));
    let (index, _) = lines.next()?;
    lines.next().is_none().then_some(index + 1)
}

#[cfg(test)]
mod tests {
    use super::{as_written, line_of, only_line_with};

    #[test]
    fn a_number_is_told_as_it_is_written() {
        let keys = ("cache", "share");
        let told = |text: &str| as_written(text, keys, "0.8");
        assert_eq!(told("cache:\n  share: 0.80  # most\n"), "0.80");
        assert_eq!(told("cache:\n  share: .8\n"), ".8");
        assert_eq!(told("cache: {share: 0.80}\n"), "0.8");
        assert_eq!(told("cache:\n  share: 0.9\n"), "0.8");
    }

    #[test]
    fn the_last_key_of_a_block_mapping_is_found_and_no_other() {
        let text =
            "# dtype: x\nmodel: a/b\n\"dtype\" : half\nnested:\n  dtype: y\nlist:\n- dtype: z\ndtype: auto\n";
        let is = |name: &'static str| move |key: &str| key == name;
        assert_eq!(line_of(text, &is("model"), None), Some(2));
        assert_eq!(line_of(text, &is("dtype"), None), Some(8));
        assert_eq!(line_of(text, &is("nested"), Some("dtype")), Some(5));
        assert_eq!(line_of(text, &is("model"), Some("dtype")), None);
        assert_eq!(line_of("{dtype: auto}", &is("dtype"), None), None);
        assert_eq!(line_of("url:http\n", &is("url"), None), None);
    }

    #[test]
    fn a_line_is_told_only_where_no_other_holds_the_text() {
        assert_eq!(only_line_with("a\nb c\n", "c"), Some(2));
        assert_eq!(only_line_with("c\nb c\n", "c"), None);
        assert_eq!(only_line_with("c\n", ""), None);
    }
}
