//! Escaping for Markdown.

pub(crate) fn code(name: &str) -> String {
    format!("<code>{}</code>", escaped(name))
}

/// Escapes markup, links, mentions and cell separators.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '@' | '#' | '!' => {
                out.push_str(&format!("&#{};", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    // GitHub turns URLs into links.
    out.replace("://", "&#58;//").replace("www.", "www&#46;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_nothing_but_text() {
        let hostile = "<img src=x>|`@user [a](http://b) **c** www.d";
        let shown = code(hostile);
        for markup in ["<img", "|", "`", "@", "](", "**", "://", "www."] {
            assert!(!shown.contains(markup), "{markup}: {shown}");
        }
        assert_eq!(code("a::b<c>"), "<code>a::b&lt;c&gt;</code>");
    }
}
