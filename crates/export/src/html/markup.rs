//! The document: policy, static table, data, script.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rprof_profile::Profile;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::columns::Section;
use super::join::join;
use super::{HtmlOptions, subtitle};
use crate::clean::{clean, shorten};
use crate::rows::{RowOptions, percent, rows};
use crate::verdict::findings;

/// Modules of the page, in dependency order.
const MODULES: &[&str] = &[
    include_str!("../../page/decode.js"),
    include_str!("../../page/text.js"),
    include_str!("../../page/tree.js"),
    include_str!("../../page/model.js"),
    include_str!("../../page/groups.js"),
    include_str!("../../page/processes.js"),
    include_str!("../../page/transform.js"),
    include_str!("../../page/filter.js"),
    include_str!("../../page/search.js"),
    include_str!("../../page/state.js"),
    include_str!("../../page/layout.js"),
    include_str!("../../page/chronicle.js"),
    include_str!("../../page/figures.js"),
    include_str!("../../page/colors.js"),
    include_str!("../../page/profile.js"),
    include_str!("../../page/dom.js"),
    include_str!("../../page/flame.js"),
    include_str!("../../page/lanes.js"),
    include_str!("../../page/timeline.js"),
    include_str!("../../page/table.js"),
    include_str!("../../page/outline.js"),
    include_str!("../../page/code.js"),
    include_str!("../../page/legend.js"),
    include_str!("../../page/views.js"),
    include_str!("../../page/copy.js"),
    include_str!("../../page/dialogs.js"),
    include_str!("../../page/picture.js"),
    include_str!("../../page/bars.js"),
    include_str!("../../page/paper.js"),
    include_str!("../../page/main.js"),
];

const STYLE: &str = include_str!("../../page/style.css");

const STATIC_ROWS: usize = 200;

const LONGEST_NAME: usize = 300;

pub(super) fn document(
    profile: &Profile,
    options: &HtmlOptions,
    sections: &[Section],
) -> io::Result<String> {
    let script = join(MODULES);
    let entries: Vec<_> = sections.iter().map(|section| &section.entry).collect();
    let index = json!({ "version": 1, "sections": entries });
    let data: usize = sections.iter().map(|section| section.text.len() + 80).sum();
    let mut page = String::with_capacity(data + script.len() + STYLE.len() + (64 << 10));
    page.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    page.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '",
    );
    page.push_str(&hash(&script));
    page.push_str("'; style-src '");
    page.push_str(&hash(STYLE));
    page.push_str(
        "'; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'\">\n",
    );
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<meta name=\"referrer\" content=\"no-referrer\"><link rel=\"icon\" href=\"data:,\">\n<title>");
    escape(&shorten(&clean(&options.title), LONGEST_NAME), &mut page);
    page.push_str("</title>\n<style>");
    page.push_str(STYLE);
    page.push_str("</style></head><body>\n<main id=\"static\">\n");
    static_part(profile, options, &mut page);
    page.push_str("</main>\n");
    page.push_str("<script type=\"application/x-rprof\" id=\"d-index\">");
    page.push_str(&index.to_string());
    page.push_str("</script>\n");
    for section in sections {
        page.push_str("<script type=\"application/x-rprof\" id=\"d-");
        page.push_str(&section.entry.name);
        page.push_str("\">");
        page.push_str(&section.text);
        page.push_str("</script>\n");
    }
    page.push_str("<script>");
    page.push_str(&script);
    page.push_str("</script>\n</body></html>\n");
    Ok(page)
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// Writes title, verdict, and the hottest functions, for readers without JavaScript.
fn static_part(profile: &Profile, options: &HtmlOptions, page: &mut String) {
    let mut element = |tag: &str, text: &str| {
        page.push_str(&format!("<{tag}>"));
        escape(&shorten(&clean(text), 2000), page);
        page.push_str(&format!("</{tag}>\n"));
    };
    element("h1", &options.title);
    element("p", &subtitle(profile, options));
    for finding in findings(profile) {
        element("p", &(options.wording)(&finding));
    }
    let Some(event) = profile.main_event() else {
        return;
    };
    element(
        "p",
        "This page draws flame graphs, a time line and more with JavaScript, which is disabled \
         here. Save the file and open it in a browser, or read the hottest functions:",
    );
    let own = rows(
        profile,
        event,
        &RowOptions {
            limit: Some(STATIC_ROWS),
            one_name: true,
            ..RowOptions::default()
        },
    );
    page.push_str("<table><thead><tr><th>self %</th><th>total %</th><th>samples</th><th>function</th><th>object</th></tr></thead><tbody>\n");
    for row in &own.rows {
        let top = &row.top;
        page.push_str(&format!(
            "<tr><td>{:.2}</td><td>{:.2}</td><td>{}</td><td>",
            percent(top.self_weight, own.whole),
            percent(top.total_weight, own.whole),
            top.self_samples
        ));
        let name = row.symbol.as_deref().unwrap_or_default();
        escape(&shorten(name, LONGEST_NAME), page);
        page.push_str("</td><td>");
        let object = row.object.as_deref().unwrap_or_default();
        escape(&shorten(object, LONGEST_NAME), page);
        page.push_str("</td></tr>\n");
    }
    page.push_str("</tbody></table>\n");
}

fn escape(text: &str, page: &mut String) {
    for c in text.chars() {
        match c {
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '&' => page.push_str("&amp;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            c => page.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut page = String::new();
        escape("<b a='\"'>&amp;", &mut page);
        assert_eq!(page, "&lt;b a=&#39;&quot;&#39;&gt;&amp;amp;");
    }

    #[test]
    fn the_script_ends_where_it_should() {
        // It would end the script, even in a string.
        let script = join(MODULES).to_ascii_lowercase();
        assert!(!script.contains("</script") && !script.contains("<!--"));
        assert!(!STYLE.contains('<'));
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        // Reference: `printf abc | openssl dgst -sha256 -binary | base64`
        assert_eq!(
            hash("abc"),
            "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
    }
}
