//! Text for a page: escaping, templates, truncation.

use serde::Serialize;

/// Escapes `text` for use between tags and between double quotes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Formats `value` as JSON for a `script` element: without `<`, so neither `</script>` nor `<!--`
/// can occur.
pub(super) fn json(value: &impl Serialize) -> String {
    // serde_json writes NaN as null, and no other value can fail.
    let plain = serde_json::to_string(value).unwrap_or_default();
    plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Replaces each `{{name}}` of `template` by its part. Parts are not scanned, so none can fill
/// another.
pub(super) fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        page.push_str(before);
        page.extend(parts.iter().find(|(part, _)| *part == name).map(|(_, text)| *text));
        rest = after;
    }
    page + rest
}

/// Truncates `text` to `most` characters, with an ellipsis at the end.
pub(super) fn truncate(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Formats `a, b and c`.
pub(super) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Formats `1 row`, `2 rows`.
pub(super) fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text() {
        assert_eq!(escape("<b a=\"1\" b='2'>&\0"), "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn end_of_script_in_json() {
        let json = json(&"</script><!--&");
        assert_eq!(json, r#""\u003c/script\u003e\u003c!--\u0026""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!--&");
    }

    #[test]
    fn part_that_looks_like_a_placeholder() {
        assert_eq!(fill("[{{a}}|{{b}}|{{none}}]", &[("a", "{{b}}"), ("b", "B")]), "[{{b}}|B|]");
    }

    #[test]
    fn long_text_is_truncated() {
        assert_eq!((truncate("größe", 5), truncate("größer", 5)), ("größe".into(), "größ…".into()));
    }

    #[test]
    fn lists() {
        let list = |words: &[&str]| list(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!([list(&[]), list(&["a"]), list(&["a", "b", "c"])], ["", "a", "a, b and c"]);
    }
}
