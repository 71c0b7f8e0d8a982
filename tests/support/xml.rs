//! Check for well-formed XML.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Returns the `title` elements of an SVG, one for each frame of a flame graph.
///
/// # Panics
/// If it is not well-formed.
pub(crate) fn well_formed(svg: &str) -> Vec<String> {
    let mut reader = Reader::from_str(svg);
    let (mut open, mut titles, mut roots) = (Vec::new(), Vec::new(), 0);
    loop {
        let at = reader.buffer_position();
        let event = reader.read_event();
        let mut text = |more: &str| {
            if open.last().is_some_and(|name| name == "title") {
                let title: &mut String = titles.last_mut().expect("pushed with the element");
                title.push_str(more);
            }
        };
        match event.unwrap_or_else(|e| panic!("at byte {at}: {e}")) {
            Event::Start(start) => {
                let name = check_element(&start);
                if open.is_empty() {
                    roots += 1;
                }
                if name == "title" {
                    titles.push(String::new());
                }
                open.push(name);
            }
            Event::Empty(empty) => {
                check_element(&empty);
            }
            Event::End(_) => {
                open.pop();
            }
            Event::Text(t) => {
                let t = t.decode().expect("UTF-8");
                assert!(!t.chars().any(is_forbidden), "a control character in {t:?}");
                text(&t);
            }
            Event::GeneralRef(reference) => {
                let c = reference.resolve_char_ref().expect("a character reference");
                let c = c.unwrap_or_else(|| entity(&reference.decode().expect("UTF-8")));
                text(&c.to_string());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    assert_eq!(roots, 1, "elements at the root");
    titles
}

fn check_element(start: &BytesStart<'_>) -> String {
    let name = String::from_utf8(start.name().as_ref().to_vec()).expect("UTF-8");
    for attribute in start.attributes() {
        let attribute = attribute.unwrap_or_else(|e| panic!("an attribute of {name}: {e}"));
        let value = String::from_utf8_lossy(&attribute.value);
        assert!(
            !value.contains('<'),
            "`<` in an attribute of {name}: {value:?}"
        );
        assert!(
            !value.chars().any(is_forbidden),
            "a control character in {value:?}"
        );
    }
    name
}

/// XML has five predefined entities.
fn entity(name: &str) -> char {
    match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => panic!("&{name}; is not defined"),
    }
}

/// Returns true for characters that XML 1.0 forbids, §2.2.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}
